# SPDX-License-Identifier: Apache-2.0
"""A LiDAR world with exact truth: terrain, objects, sensors, a ray caster, and scenes by name.

`roadbed.open("sim:city")` is the short way in. To drive a sensor of your own through a scene of your own, see
docs/simulator.md.
"""
