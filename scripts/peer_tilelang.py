"""TileLang kernels: a row a block, the row in registers. TileLang compiles the text of these
functions, and reads dtypes and shapes from their annotations, so those are not postponed here."""

import tilelang
import tilelang.language as T


@tilelang.jit
def rms_norm(m, n, dtype, eps, threads=256):
    @T.prim_func
    def kernel(x: T.Tensor((m, n), dtype), w: T.Tensor((n,), dtype), y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=threads) as row:
            values = T.alloc_fragment((1, n), "float32")
            squares = T.alloc_fragment((1, n), "float32")
            rstd = T.alloc_fragment((1,), "float32")
            for i, j in T.Parallel(1, n):
                values[i, j] = T.cast(x[row, j], "float32")
            for i, j in T.Parallel(1, n):
                squares[i, j] = values[i, j] * values[i, j]
            T.reduce_sum(squares, rstd, dim=1)
            for i in T.Parallel(1):
                rstd[i] = T.rsqrt(rstd[i] / n + eps)
            for i, j in T.Parallel(1, n):
                y[row, j] = T.cast(values[i, j] * rstd[i] * T.cast(w[j], "float32"), dtype)

    return kernel


@tilelang.jit
def rms_norm_rope(m, n, width, dtype, eps, threads=256):
    half = width // 2
    head = n - width

    @T.prim_func
    def kernel(
        x: T.Tensor((m, n), dtype),
        w: T.Tensor((n,), dtype),
        cos: T.Tensor((m, half), dtype),
        sin: T.Tensor((m, half), dtype),
        y: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(m, threads=threads) as row:
            values = T.alloc_fragment((1, n), "float32")
            squares = T.alloc_fragment((1, n), "float32")
            rstd = T.alloc_fragment((1,), "float32")
            normed = T.alloc_shared((1, n), dtype)  # where the members of a pair meet
            for i, j in T.Parallel(1, n):
                values[i, j] = T.cast(x[row, j], "float32")
            for i, j in T.Parallel(1, n):
                squares[i, j] = values[i, j] * values[i, j]
            T.reduce_sum(squares, rstd, dim=1)
            for i in T.Parallel(1):
                rstd[i] = T.rsqrt(rstd[i] / n + eps)
            for i, j in T.Parallel(1, n):
                normed[i, j] = T.cast(values[i, j] * rstd[i] * T.cast(w[j], "float32"), dtype)
            for j in T.Parallel(head):
                y[row, j] = normed[0, j]
            for p in T.Parallel(half):
                low = T.cast(normed[0, head + p], "float32")
                high = T.cast(normed[0, head + half + p], "float32")
                c = T.cast(cos[row, p], "float32")
                s = T.cast(sin[row, p], "float32")
                y[row, head + p] = T.cast(low * c - high * s, dtype)
                y[row, head + half + p] = T.cast(high * c + low * s, dtype)

    return kernel
