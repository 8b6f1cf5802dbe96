# SPDX-License-Identifier: Apache-2.0
"""A LiDAR world with exact truth: terrain, objects, sensors, a ray caster, and scenes by name.

`roadbed.open("sim:city")` opens a scene by name. docs/simulator.md describes scenes and sensors of your own.
"""
