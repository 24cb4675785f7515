// What the kernels share: short names, and sums over a warp and over a block, whose order never depends on the batch.
// No header of CUDA's is needed.
#ifndef COMMON_CUH
#define COMMON_CUH

typedef unsigned int u32;
typedef unsigned long long u64;

#define WARP 32
#define ALL_LANES 0xffffffffu

__device__ inline float not_a_number() { return __uint_as_float(0x7fc00000u); }
__device__ inline float minus_infinity() { return __uint_as_float(0xff800000u); }

// Every lane gets the sum.
__device__ inline float warp_sum(float value) {
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL_LANES, value, lanes);
    return value;
}

// Every lane gets the largest value.
__device__ inline float warp_max(float value) {
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, lanes));
    return value;
}

// Every thread of a block of whole warps gets the sum. `part` is shared memory, one element per warp.
__device__ inline float block_sum(float value, float* part) {
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = value;
    __syncthreads();
    float sum = 0.0f;
    for (u32 warp = 0; warp < blockDim.x / WARP; ++warp) sum += part[warp];
    return sum;
}

// x / (1 + exp(-x)).
__device__ inline float silu_of(float x) { return x / (1.0f + expf(-x)); }

// The element that a thread works on.
__device__ inline u32 element() { return blockIdx.x * blockDim.x + threadIdx.x; }

#endif
