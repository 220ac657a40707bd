"""The real kustomize, asked over a pipe.

    python3 kustomize_oracle.py LIBRARY

LIBRARY is the `libpykustomize.so` of the PyPI package pykustomize, which is kustomize's own Go
code behind a C interface. One JSON object a line on stdin, one a line on stdout, in step:

    {"path": "/dir", "options": {"reorder": "none", "load_restrictions": 0}}
    {"output": "..."}  or  {"error": "..."},  each with "warnings": "..."

`options` is the library's: reorder "none" | "legacy" | "unspecified", load_restrictions 0 (the
kustomization's directory) | 1 (anywhere), add_managedby_label, enable_plugins, enable_helm.
`warnings` is what the engine wrote to stderr meanwhile. A crash of the engine ends the process:
the caller starts another and tells its end as the answer.
"""

import ctypes
import json
import os
import sys
import tempfile


def load(path):
    library = ctypes.CDLL(path)
    library.pykustomize_build.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    library.pykustomize_build.restype = ctypes.c_int
    library.pykustomize_last_error.restype = ctypes.c_void_p
    library.pykustomize_free.argtypes = [ctypes.c_void_p]
    return library


def take(library, pointer):
    """The text at a pointer that the library gave away, freed."""
    if not pointer:
        return ""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        library.pykustomize_free(pointer)


def build(library, request):
    options = json.dumps(request.get("options", {})).encode()
    result = ctypes.c_void_p()
    if library.pykustomize_build(os.fsencode(request["path"]), options, ctypes.byref(result)) == 0:
        return {"output": take(library, result.value)}
    return {"error": take(library, library.pykustomize_last_error())}


def main():
    library = load(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with tempfile.TemporaryFile() as stderr:
        # the engine's own stdout and stderr are the descriptors, not Python's objects
        os.dup2(2, 1)
        saved = os.dup(2)
        for line in sys.stdin:
            os.ftruncate(stderr.fileno(), 0)
            os.lseek(stderr.fileno(), 0, os.SEEK_SET)
            os.dup2(stderr.fileno(), 2)
            answer = build(library, json.loads(line))
            os.dup2(saved, 2)
            os.lseek(stderr.fileno(), 0, os.SEEK_SET)
            answer["warnings"] = os.read(stderr.fileno(), 1 << 20).decode("utf-8", "replace")
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


main()
