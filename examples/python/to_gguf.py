#!/usr/bin/env python3
"""to_gguf.py CHECKPOINT MODEL.gguf [ARCHITECTURE] - a checkpoint of dcp.h as a GGUF file.

One that from_gguf.py made gives an equal file: types, quantized tensors and key-value pairs come from its field "gguf".
Of any other, fp64, fp32, fp16, bf16 and signed integers are written as they are, and ARCHITECTURE must be given.
Needs the packages gguf and numpy. Tensors are mapped and written one by one.
"""
import json
import sys

import dcp
import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

KINDS = {"fp64": "F64", "fp32": "F32", "fp16": "F16", "bf16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
         "int8": "I8"}


def add_pairs(writer, pairs):
    for key, types, value in pairs:
        if key != "general.architecture":           # the writer has put it there
            kinds = [GGUFValueType[name] for name in types]
            writer.add_key_value(key, value, kinds[0], kinds[-1] if len(kinds) > 1 else None)


def main(source, target, architecture=None):
    with dcp.open(source) as checkpoint:
        about = json.loads(checkpoint.fields.get("gguf", '{"pairs": [], "types": {}}'))
        values = {key: value for key, _, value in about["pairs"]}
        architecture = architecture or values.get("general.architecture")
        if not architecture:
            sys.exit("to_gguf.py: the checkpoint names no architecture; give one, such as llama")
        writer = GGUFWriter(target, architecture)
        add_pairs(writer, about["pairs"])
        for name, tensor in checkpoint.items():
            kind = about["types"].get(name) or KINDS.get(tensor.dtype)
            if kind is None:
                sys.exit("to_gguf.py: %s: GGUF has no type for %s" % (name, tensor.dtype))
            array = tensor[...]
            is_bytes = kind not in KINDS.values() or kind == "BF16"
            writer.add_tensor(name, array.view(np.uint8) if is_bytes else array,
                              raw_dtype=GGMLQuantizationType[kind] if is_bytes else None)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    print("%s: %d tensors" % (target, len(checkpoint)))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
