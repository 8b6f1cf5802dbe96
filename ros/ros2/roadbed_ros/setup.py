# SPDX-License-Identifier: Apache-2.0
from setuptools import setup

NAME = "roadbed_ros"

setup(
    name=NAME,
    version="0.1.0",
    packages=[NAME],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", ["launch/roadbed.launch.py"]),
    ],
    license="Apache-2.0",
)
