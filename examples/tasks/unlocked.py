"""Routines of BLAS and LAPACK on square blocks, in place, without Python's lock.

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


def _address_of(block):
    """Return where a block begins; it must be as the routines expect it."""
    n = len(block)
    if not (block.shape == (n, n) and block.dtype == float and block.flags.f_contiguous):
        raise ValueError("a block must be square, of floats, and stored by columns")
    return block.ctypes.data


def subtract_product(a, b, c):
    """Subtract a times the transposed b from c."""
    n = byref(c_int(len(c)))
    _dgemm(b"N", b"T", n, n, n, _MINUS_ONE, _address_of(a), n, _address_of(b), n, _ONE,
           _address_of(c), n)  # fmt: skip


def subtract_square(a, c):
    """Subtract a times the transposed a from the lower half of c."""
    n = byref(c_int(len(c)))
    _dsyrk(b"L", b"N", n, n, _MINUS_ONE, _address_of(a), n, _ONE, _address_of(c), n)


def divide(a, lower):
    """Multiply a by the inverse of the transposed lower triangle."""
    n = byref(c_int(len(a)))
    _dtrsm(b"R", b"L", b"T", b"N", n, n, _ONE, _address_of(lower), n, _address_of(a), n)


def take_root(a):
    """Replace the lower half of a by the factor that gives a, times itself transposed.

    The upper half stays as it is, as LAPACK leaves it: no task reads it.
    """
    n, fault = byref(c_int(len(a))), c_int()
    _dpotrf(b"L", n, _address_of(a), n, byref(fault))
    if fault.value:
        raise ValueError("the matrix is not positive definite")
