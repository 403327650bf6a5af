"""Routines of BLAS and LAPACK on blocks, in place, without Python's lock.

The functions of ``scipy.linalg.blas`` and ``scipy.linalg.lapack`` keep the lock while they compute,
so threads that call them take turns. Their routines for Cython, called through ctypes, do not.
Blocks are stored by columns, as LAPACK wants them.
"""

from ctypes import (
    CFUNCTYPE,
    PYFUNCTYPE,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_void_p,
    py_object,
    pythonapi,
)

from scipy.linalg import cython_blas, cython_lapack

_name = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
_address = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))


def _routine(module, name, n_arguments):
    capsule = module.__pyx_capi__[name]
    return CFUNCTYPE(None, *[c_void_p] * n_arguments)(_address(capsule, _name(capsule)))


_dgemm, _dsyrk = _routine(cython_blas, "dgemm", 13), _routine(cython_blas, "dsyrk", 10)
_dtrsm, _dpotrf = _routine(cython_blas, "dtrsm", 11), _routine(cython_lapack, "dpotrf", 5)
_ONE, _MINUS_ONE = byref(c_double(1)), byref(c_double(-1))


def _length(n):
    return byref(c_int(n))


def _address_of(block, *shape):
    """Return where a block begins; it must be as the routines expect it."""
    if not (block.shape == shape and block.dtype == float and block.flags.f_contiguous):
        raise ValueError(f"a block must have the shape {shape}, floats, and be stored by columns")
    return block.ctypes.data


def subtract_product(a, b, c):
    """Subtract a times the transposed b from c."""
    (m, k), n = a.shape, len(b)
    rows, columns, depth = map(_length, (m, n, k))
    _dgemm(b"N", b"T", rows, columns, depth, _MINUS_ONE, _address_of(a, m, k), rows,
           _address_of(b, n, k), columns, _ONE, _address_of(c, m, n), rows)  # fmt: skip


def subtract_square(a, c):
    """Subtract a times the transposed a from the lower half of c."""
    m, k = a.shape
    rows, depth = map(_length, (m, k))
    _dsyrk(b"L", b"N", rows, depth, _MINUS_ONE, _address_of(a, m, k), rows, _ONE,
           _address_of(c, m, m), rows)  # fmt: skip


def divide(a, lower):
    """Multiply a by the inverse of the transposed lower triangle."""
    m, n = a.shape
    rows, columns = map(_length, (m, n))
    _dtrsm(b"R", b"L", b"T", b"N", rows, columns, _ONE, _address_of(lower, n, n), columns,
           _address_of(a, m, n), rows)  # fmt: skip


def take_root(a):
    """Replace the lower half of a by the factor that gives a, times itself transposed.

    The upper half stays as it is, as LAPACK leaves it: no task reads it.
    """
    n, fault = _length(len(a)), c_int()
    _dpotrf(b"L", n, _address_of(a, len(a), len(a)), n, byref(fault))
    if fault.value:
        raise ValueError("the matrix is not positive definite")
