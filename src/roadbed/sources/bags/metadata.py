# SPDX-License-Identifier: Apache-2.0
"""ROS 2 bag folders: metadata.yaml with checked types, and storage files that are compressed as a whole."""

from pathlib import Path, PurePath
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rosbags.rosbag2.storage_mcap import zstd

from roadbed.config.text import load_text, parse_yaml
from roadbed.core.errors import ConfigError, InputError
from roadbed.io.files import check_regular, open_regular
from roadbed.sources.bags.decompression import DecompressionBudget, check_qos

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Time = Annotated[int, Field(gt=-(2**63), lt=2**63)]
_PIECE = 1 << 20


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Topic(_Checked):
    name: str
    type: str
    serialization_format: str
    offered_qos_profiles: Any = None
    type_description_hash: str = ""


class _CountedTopic(_Checked):
    message_count: _Count
    topic_metadata: _Topic


class Metadata(_Checked):
    """The used part of metadata.yaml."""

    version: int
    storage_identifier: str
    relative_file_paths: list[str]
    duration: dict[str, _Count]
    starting_time: dict[str, _Time]
    message_count: _Count
    topics_with_message_count: list[_CountedTopic]
    compression_format: str = ""
    compression_mode: str = ""

    def files(self, folder: Path) -> list[Path]:
        """The storage files, always inside the folder."""
        files = [folder / PurePath(name).name for name in self.relative_file_paths]
        if len(set(files)) < len(files):
            raise InputError(f"{folder}: metadata.yaml: relative_file_paths: found a file twice, expected each once")
        return files

    @property
    def packed_files(self) -> bool:
        return self.compression_mode.lower() == "file"


def read_metadata(folder: Path) -> Metadata:
    path = folder / "metadata.yaml"
    try:
        values = parse_yaml(load_text(path), str(path))
        metadata = Metadata.model_validate(values["rosbag2_bagfile_information"])
    except ConfigError as error:
        raise InputError(str(error)) from None
    except (KeyError, TypeError):
        raise InputError(f"{path}: expected rosbag2_bagfile_information with version and topics") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg'].lower()}, found {str(first['input'])[:60]!r}") from None
    for topic in metadata.topics_with_message_count:
        check_qos(topic.topic_metadata.offered_qos_profiles)
    return metadata


def unpack_folder(folder: Path, metadata: Metadata, target: Path) -> None:
    """Unpack a bag whose files are compressed as a whole into the folder `target`."""
    if metadata.compression_format != "zstd":
        raise InputError(f"{folder}: compression_format: found {metadata.compression_format!r}, expected 'zstd'")
    files = metadata.files(folder)
    budget = DecompressionBudget(sum(check_regular(file) for file in files), str(folder))
    for file in files:
        with open_regular(file) as packed, zstd.open(packed, "rb") as source, (target / file.stem).open("wb") as out:
            while piece := source.read(_PIECE):
                out.write(budget.take(piece))
    values = parse_yaml(load_text(folder / "metadata.yaml"), str(folder))
    values["rosbag2_bagfile_information"].update(
        compression_mode="", compression_format="", relative_file_paths=[file.stem for file in files]
    )
    (target / "metadata.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
