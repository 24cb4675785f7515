// Kernels that use what the host compiler has to model: shared memory of both kinds, barriers, shuffles, half floats,
// structs by value.
#include <cuda_bf16.h>

#define SCALE 2.0f

// The sum over a block, by shuffles inside each warp and shared memory between warps.
template <int WARPS>
__device__ float block_sum(float value) {
    __shared__ float part[WARPS];
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < WARPS; ++warp) sum += part[warp];
    __syncthreads();
    return sum;
}

// One row per block, one column per thread: out = SCALE * x / sum(x).
extern "C" __global__ void __launch_bounds__(64) normalise(float* __restrict__ out, const float* __restrict__ x) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = block_sum<2>(x[at]);
    out[at] = SCALE * x[at] / sum;
}

// Reverses each block's row through dynamic shared memory.
extern "C" __global__ void reverse(unsigned* data) {
    extern __shared__ unsigned row[];
    unsigned* mine = data + blockIdx.x * blockDim.x;
    row[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

struct Affine {
    float factor;
    float offset;
    int count;
};

// bf16 in and out, fp32 between, a struct by value.
extern "C" __global__ void affine(__nv_bfloat16* data, Affine map) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < map.count) data[i] = __float2bfloat16(__bfloat162float(data[i]) * map.factor + map.offset);
}

// Which of the lanes holds a true value, as every lane sees it.
extern "C" __global__ void ballot(unsigned* out, const int* flags) {
    unsigned mask = __ballot_sync(0xffffffffu, flags[threadIdx.x]);
    int next = __shfl_down_sync(0xffffffffu, flags[threadIdx.x], 1);
    int first = __shfl_sync(0xffffffffu, flags[threadIdx.x], 0);
    int before = __shfl_up_sync(0xffffffffu, flags[threadIdx.x], 2, 8);
    out[threadIdx.x] = mask ^ unsigned(next + 16 * first + 256 * before);
    if (threadIdx.x == 0) atomicAdd(&out[blockDim.x], unsigned(__popc(mask)));
}
