// Atomics and fences. Threads switch only where they wait, so plain reads and writes are atomic here.
#pragma once

#define CUDA_HOST_ATOMIC(name, expression)                                             \
    template <class T>                                                                 \
    static inline T name(T* place, T value) {                                          \
        T old = *place;                                                                \
        *place = static_cast<T>(expression);                                           \
        return old;                                                                    \
    }
CUDA_HOST_ATOMIC(atomicAdd, old + value)
CUDA_HOST_ATOMIC(atomicSub, old - value)
CUDA_HOST_ATOMIC(atomicMin, value < old ? value : old)
CUDA_HOST_ATOMIC(atomicMax, old < value ? value : old)
CUDA_HOST_ATOMIC(atomicAnd, old & value)
CUDA_HOST_ATOMIC(atomicOr, old | value)
CUDA_HOST_ATOMIC(atomicXor, old ^ value)
CUDA_HOST_ATOMIC(atomicExch, value)
CUDA_HOST_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
CUDA_HOST_ATOMIC(atomicDec, (old == 0 || old > value) ? value : old - 1)
#undef CUDA_HOST_ATOMIC

template <class T>
static inline T atomicCAS(T* place, T expected, T value) {
    T old = *place;
    if (old == expected) *place = value;
    return old;
}

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
