from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Party(_message.Message):
    __slots__ = ("protocol", "version", "scenario", "model")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SCENARIO_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    scenario: str
    model: str
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., scenario: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("run", "session", "t", "r")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    T_FIELD_NUMBER: _ClassVar[int]
    R_FIELD_NUMBER: _ClassVar[int]
    run: str
    session: str
    t: int
    r: int
    def __init__(self, run: _Optional[str] = ..., session: _Optional[str] = ..., t: _Optional[int] = ..., r: _Optional[int] = ...) -> None: ...

class Payload(_message.Message):
    __slots__ = ("length", "digest")
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    length: int
    digest: bytes
    def __init__(self, length: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class FromDevice(_message.Message):
    __slots__ = ("greeting", "upload", "chunk", "failure")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    greeting: Greeting
    upload: Upload
    chunk: bytes
    failure: Failure
    def __init__(self, greeting: _Optional[_Union[Greeting, _Mapping]] = ..., upload: _Optional[_Union[Upload, _Mapping]] = ..., chunk: _Optional[bytes] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ("party", "samples")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    party: Party
    samples: int
    def __init__(self, party: _Optional[_Union[Party, _Mapping]] = ..., samples: _Optional[int] = ...) -> None: ...

class Upload(_message.Message):
    __slots__ = ("key", "message", "variate", "report")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    VARIATE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    key: Key
    message: Payload
    variate: Payload
    report: Report
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., message: _Optional[_Union[Payload, _Mapping]] = ..., variate: _Optional[_Union[Payload, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("key", "why")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    key: Key
    why: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("download_s", "train_s", "loss_sum", "largest", "update_norm", "left_norm", "joules", "metered", "enforce_s")
    DOWNLOAD_S_FIELD_NUMBER: _ClassVar[int]
    TRAIN_S_FIELD_NUMBER: _ClassVar[int]
    LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    UPDATE_NORM_FIELD_NUMBER: _ClassVar[int]
    LEFT_NORM_FIELD_NUMBER: _ClassVar[int]
    JOULES_FIELD_NUMBER: _ClassVar[int]
    METERED_FIELD_NUMBER: _ClassVar[int]
    ENFORCE_S_FIELD_NUMBER: _ClassVar[int]
    download_s: float
    train_s: float
    loss_sum: float
    largest: float
    update_norm: float
    left_norm: float
    joules: float
    metered: bool
    enforce_s: float
    def __init__(self, download_s: _Optional[float] = ..., train_s: _Optional[float] = ..., loss_sum: _Optional[float] = ..., largest: _Optional[float] = ..., update_norm: _Optional[float] = ..., left_norm: _Optional[float] = ..., joules: _Optional[float] = ..., metered: _Optional[bool] = ..., enforce_s: _Optional[float] = ...) -> None: ...

class ToDevice(_message.Message):
    __slots__ = ("welcome", "order", "chunk", "receipt")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    order: Order
    chunk: bytes
    receipt: Receipt
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., chunk: _Optional[bytes] = ..., receipt: _Optional[_Union[Receipt, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("party",)
    PARTY_FIELD_NUMBER: _ClassVar[int]
    party: Party
    def __init__(self, party: _Optional[_Union[Party, _Mapping]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("key", "label", "remember", "local_steps", "codec", "cpu_hz", "bandwidth_hz", "tx_power_w", "model", "correction", "rate_bps")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    REMEMBER_FIELD_NUMBER: _ClassVar[int]
    LOCAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    CPU_HZ_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_HZ_FIELD_NUMBER: _ClassVar[int]
    TX_POWER_W_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CORRECTION_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    key: Key
    label: str
    remember: str
    local_steps: int
    codec: str
    cpu_hz: float
    bandwidth_hz: float
    tx_power_w: float
    model: Payload
    correction: Payload
    rate_bps: float
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., label: _Optional[str] = ..., remember: _Optional[str] = ..., local_steps: _Optional[int] = ..., codec: _Optional[str] = ..., cpu_hz: _Optional[float] = ..., bandwidth_hz: _Optional[float] = ..., tx_power_w: _Optional[float] = ..., model: _Optional[_Union[Payload, _Mapping]] = ..., correction: _Optional[_Union[Payload, _Mapping]] = ..., rate_bps: _Optional[float] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("key", "accepted", "why")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    key: Key
    accepted: bool
    why: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., accepted: _Optional[bool] = ..., why: _Optional[str] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("party", "run", "peers", "inputs")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    party: Party
    run: str
    peers: _containers.RepeatedCompositeFieldContainer[Peer]
    inputs: Inputs
    def __init__(self, party: _Optional[_Union[Party, _Mapping]] = ..., run: _Optional[str] = ..., peers: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., inputs: _Optional[_Union[Inputs, _Mapping]] = ...) -> None: ...

class Peer(_message.Message):
    __slots__ = ("number", "address")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    number: int
    address: str
    def __init__(self, number: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class Inputs(_message.Message):
    __slots__ = ("shape", "num_classes", "integers")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    INTEGERS_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    num_classes: int
    integers: bool
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., num_classes: _Optional[int] = ..., integers: _Optional[bool] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("party", "seats", "peers")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    party: Party
    seats: _containers.RepeatedCompositeFieldContainer[Seat]
    peers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, party: _Optional[_Union[Party, _Mapping]] = ..., seats: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ..., peers: _Optional[_Iterable[int]] = ...) -> None: ...

class Seat(_message.Message):
    __slots__ = ("number", "samples")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    number: int
    samples: int
    def __init__(self, number: _Optional[int] = ..., samples: _Optional[int] = ...) -> None: ...

class TrainOrder(_message.Message):
    __slots__ = ("key", "base", "label", "deadline_s", "devices", "coded", "forget_before")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CODED_FIELD_NUMBER: _ClassVar[int]
    FORGET_BEFORE_FIELD_NUMBER: _ClassVar[int]
    key: Key
    base: str
    label: str
    deadline_s: float
    devices: _containers.RepeatedCompositeFieldContainer[DeviceOrder]
    coded: bool
    forget_before: int
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., base: _Optional[str] = ..., label: _Optional[str] = ..., deadline_s: _Optional[float] = ..., devices: _Optional[_Iterable[_Union[DeviceOrder, _Mapping]]] = ..., coded: _Optional[bool] = ..., forget_before: _Optional[int] = ...) -> None: ...

class DeviceOrder(_message.Message):
    __slots__ = ("number", "local_steps", "codec", "cpu_hz", "bandwidth_hz", "tx_power_w", "samples", "rate_bps")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LOCAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    CPU_HZ_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_HZ_FIELD_NUMBER: _ClassVar[int]
    TX_POWER_W_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    number: int
    local_steps: int
    codec: str
    cpu_hz: float
    bandwidth_hz: float
    tx_power_w: float
    samples: int
    rate_bps: float
    def __init__(self, number: _Optional[int] = ..., local_steps: _Optional[int] = ..., codec: _Optional[str] = ..., cpu_hz: _Optional[float] = ..., bandwidth_hz: _Optional[float] = ..., tx_power_w: _Optional[float] = ..., samples: _Optional[int] = ..., rate_bps: _Optional[float] = ...) -> None: ...

class TrainReport(_message.Message):
    __slots__ = ("devices", "edge_s", "delivered_s", "enforce_s")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    EDGE_S_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_S_FIELD_NUMBER: _ClassVar[int]
    ENFORCE_S_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedCompositeFieldContainer[DeviceReport]
    edge_s: float
    delivered_s: float
    enforce_s: float
    def __init__(self, devices: _Optional[_Iterable[_Union[DeviceReport, _Mapping]]] = ..., edge_s: _Optional[float] = ..., delivered_s: _Optional[float] = ..., enforce_s: _Optional[float] = ...) -> None: ...

class DeviceReport(_message.Message):
    __slots__ = ("number", "delivered", "refused", "stepped_up", "upload_bytes", "upload_s", "report", "why")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    STEPPED_UP_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_S_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    number: int
    delivered: bool
    refused: int
    stepped_up: int
    upload_bytes: int
    upload_s: float
    report: Report
    why: str
    def __init__(self, number: _Optional[int] = ..., delivered: _Optional[bool] = ..., refused: _Optional[int] = ..., stepped_up: _Optional[int] = ..., upload_bytes: _Optional[int] = ..., upload_s: _Optional[float] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class MixOrder(_message.Message):
    __slots__ = ("key", "base", "label", "neighbours", "steps", "codec", "deadline_s", "own", "weights", "coded_weights", "anew")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    CODED_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    ANEW_FIELD_NUMBER: _ClassVar[int]
    key: Key
    base: str
    label: str
    neighbours: _containers.RepeatedCompositeFieldContainer[Neighbour]
    steps: int
    codec: str
    deadline_s: float
    own: float
    weights: _containers.RepeatedScalarFieldContainer[float]
    coded_weights: _containers.RepeatedScalarFieldContainer[float]
    anew: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., base: _Optional[str] = ..., label: _Optional[str] = ..., neighbours: _Optional[_Iterable[_Union[Neighbour, _Mapping]]] = ..., steps: _Optional[int] = ..., codec: _Optional[str] = ..., deadline_s: _Optional[float] = ..., own: _Optional[float] = ..., weights: _Optional[_Iterable[float]] = ..., coded_weights: _Optional[_Iterable[float]] = ..., anew: _Optional[_Iterable[int]] = ...) -> None: ...

class Neighbour(_message.Message):
    __slots__ = ("number", "address")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    number: int
    address: str
    def __init__(self, number: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class MixReport(_message.Message):
    __slots__ = ("mix_s", "bytes", "apart")
    MIX_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    mix_s: float
    bytes: int
    apart: DistanceReport
    def __init__(self, mix_s: _Optional[float] = ..., bytes: _Optional[int] = ..., apart: _Optional[_Union[DistanceReport, _Mapping]] = ...) -> None: ...

class DistanceOrder(_message.Message):
    __slots__ = ("key", "base", "neighbours", "labels")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    key: Key
    base: str
    neighbours: _containers.RepeatedCompositeFieldContainer[Neighbour]
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., base: _Optional[str] = ..., neighbours: _Optional[_Iterable[_Union[Neighbour, _Mapping]]] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class DistanceReport(_message.Message):
    __slots__ = ("numbers", "distances")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DISTANCES_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    distances: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., distances: _Optional[_Iterable[float]] = ...) -> None: ...

class ModelQuestion(_message.Message):
    __slots__ = ("run", "label")
    RUN_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    run: str
    label: str
    def __init__(self, run: _Optional[str] = ..., label: _Optional[str] = ...) -> None: ...

class Restore(_message.Message):
    __slots__ = ("head", "chunk")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    head: RestoreHead
    chunk: bytes
    def __init__(self, head: _Optional[_Union[RestoreHead, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class RestoreHead(_message.Message):
    __slots__ = ("run", "label", "model")
    RUN_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    run: str
    label: str
    model: Payload
    def __init__(self, run: _Optional[str] = ..., label: _Optional[str] = ..., model: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class Fetch(_message.Message):
    __slots__ = ("run", "label", "step")
    RUN_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run: str
    label: str
    step: int
    def __init__(self, run: _Optional[str] = ..., label: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("head", "chunk")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    head: Payload
    chunk: bytes
    def __init__(self, head: _Optional[_Union[Payload, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
