#!/usr/bin/env python3
"""from_gguf.py MODEL.gguf CHECKPOINT - a GGUF file as a checkpoint of dcp.h, with everything that it says.

Tensors keep their names and their order of dimensions (rows first, as numpy has them). Quantized ones are kept as
bytes; the field "gguf" says of what type they are, and has the key-value pairs, so that to_gguf.py makes an equal file.
Needs the packages gguf and numpy, and libdcp.so (`make lib`; DCP_LIBRARY names it). The file is mapped, not read whole.
"""
import json
import sys

import dcp
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader

PLAIN = {"F64", "F32", "F16", "I64", "I32", "I16", "I8"}


def value_of(field):
    value = field.contents()
    return value.hex() if isinstance(value, bytes) else value


def main(source, target):
    reader = GGUFReader(source)
    pairs = [[key, [kind.name for kind in field.types], value_of(field)] for key, field in reader.fields.items()
             if not key.startswith("GGUF.")]
    state, types = {}, {}
    for tensor in reader.tensors:
        kind = GGMLQuantizationType(tensor.tensor_type).name
        types[tensor.name] = kind
        state[tensor.name] = tensor.data
        if kind == "BF16":              # gguf gives its bytes
            state[tensor.name] = tensor.data.view(np.uint16), "bf16"
    about = {"pairs": pairs, "types": {name: kind for name, kind in types.items() if kind not in PLAIN}}
    dcp.Library().save(target, state, fields={"gguf": json.dumps(about, ensure_ascii=False)}, overwrite=True)
    print("%s: %d tensors, %d pairs" % (target, len(state), len(pairs)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
