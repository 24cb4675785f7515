// The elements of tensors: float, and bf16, which is the upper half of a float. Kernels read and write both with `load`
// and `store`, and compute in float.
#ifndef BF16_CUH
#define BF16_CUH

struct bf16 {
    unsigned short bits;
};

__device__ inline float load(const float* from) { return *from; }
__device__ inline float load(const bf16* from) { return __uint_as_float((unsigned int)from->bits << 16); }

__device__ inline void store(float* to, float value) { *to = value; }

// To the nearest, and of two that are as near to the even one. A NaN stays one: it becomes quiet.
__device__ inline void store(bf16* to, float value) {
    unsigned int bits = __float_as_uint(value);
    unsigned int rounded = bits + 0x7fffu + (bits >> 16 & 1);
    unsigned int kept = value != value ? bits | 0x400000u : rounded;
    to->bits = (unsigned short)(kept >> 16);
}

#endif
