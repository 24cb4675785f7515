// Kernels that each break one rule.
#include <cassert>

// The barrier between writing and reading is missing.
extern "C" __global__ void no_barrier(float* out) {
    __shared__ float shared[1];
    if (threadIdx.x == 0) shared[0] = 3.0f;
    out[threadIdx.x] = shared[0];
}

// Half of the threads return before the barrier.
extern "C" __global__ void early_return(float* out) {
    if (threadIdx.x >= 16) return;
    __syncthreads();
    out[threadIdx.x] = 1.0f;
}

// Two barriers meet.
extern "C" __global__ void two_barriers(float* out) {
    if (threadIdx.x < 16) {
        __syncthreads();
    } else {
        out[threadIdx.x] = 1.0f;
        __syncthreads();
    }
}

// A lane shuffles without being in its own mask.
extern "C" __global__ void outside_mask(float* out) { out[threadIdx.x] = __shfl_sync(0xfffffffeu, 1.0f, 1); }

extern "C" __global__ void past_the_end(float* out, int n) { out[n + threadIdx.x] = 1.0f; }

extern "C" __global__ void dynamic_overrun(float* out) {
    extern __shared__ float shared[];
    shared[4] = 1.0f;
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void asserts(float* out) { assert(out == nullptr); }
