// Most of the language that the host headers give: compiled, not run.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
struct __align__(16) Pack { float v[4]; };
template <typename T> struct Load { static __device__ __forceinline__ float get(const T* p) { return static_cast<float>(*p); } };
enum class Op : int { a, b };
template <Op op> __device__ inline float apply(float a, float b) { if constexpr (op == Op::a) return fmaxf(a, b); else return a + b; }
template <typename T> __global__ void generic(T* x) { x[0] = T(1); }
extern "C" __global__ void __launch_bounds__(128, 2) language(float* __restrict__ y, const unsigned short* __restrict__ w, const uint4* v, unsigned long long n, half* h) {
    __shared__ __align__(16) float tile[8][33];
    __shared__ Pack packs[2];
    extern __shared__ __align__(16) unsigned char raw[];
    float* dyn = reinterpret_cast<float*>(raw);
    const int lane = threadIdx.x % warpSize;
    #pragma unroll
    for (int i = 0; i < 8; ++i) tile[i][lane] = apply<Op::b>(table[i & 3], __half2float(h[i]));
    __syncthreads();
    float m = -INFINITY;
    for (int i = 0; i < 8; ++i) m = apply<Op::a>(m, tile[i][lane]);
    uint4 q = v[0];
    auto f = [&](float x) { return x * __expf(-fabsf(x)) + rsqrtf(4.0f) + __uint_as_float((unsigned)w[0] << 16); };
    dyn[threadIdx.x] = f(m) + q.x + max(1, 2) + min(3.0f, 2.0f) + float(isnan(m));
    packs[0].v[0] = 1;
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = dyn[threadIdx.x] + packs[0].v[0];
    atomicAdd(y, 1.0f); atomicMax(reinterpret_cast<int*>(y), 1);
    float4 z = make_float4(1, 2, 3, 4); *reinterpret_cast<float4*>(y) = z;
    y[5] = float(__float2bfloat16(1.5f)); if (0) printf("x %d\n", 1);
    y[6] = powf(2.0f, 3.0f) + sqrtf(2.f) + tanhf(1.f) + erff(1.f) + logf(2.f) + cosf(1.f) + floorf(1.5f) + __fdividef(1.f, 2.f);
}
