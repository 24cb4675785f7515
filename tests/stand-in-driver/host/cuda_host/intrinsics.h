// Arithmetic that CUDA has beside the C library. Fast variants are the exact ones here: rounding may differ from a GPU.
#pragma once

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
// The C library has internal functions of these names.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __exp10f(x) exp10f(x)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float fdividef(float x, float y) { return x / y; }
static inline void sincospif(float x, float* s, float* c) {
    *s = static_cast<float>(std::sin(M_PI * x));
    *c = static_cast<float>(std::cos(M_PI * x));
}

template <class To, class From>
static inline To cuda_host_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) { return cuda_host_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return cuda_host_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return cuda_host_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return cuda_host_bits<float>(x); }

static inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
static inline int __float2int_rz(float x) { return static_cast<int>(x); }
static inline int __float2int_rd(float x) { return static_cast<int>(floorf(x)); }
static inline int __float2int_ru(float x) { return static_cast<int>(ceilf(x)); }
static inline float __int2float_rn(int x) { return static_cast<float>(x); }
static inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __mul24(int x, int y) { return x * y; }
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>((static_cast<unsigned long long>(x) * y) >> 32);
}
static inline unsigned __brev(unsigned x) {
    unsigned out = 0;
    for (int i = 0; i < 32; ++i) out |= (x >> i & 1u) << (31 - i);
    return out;
}

template <class T>
static inline T __ldg(const T* place) { return *place; }
template <class T>
static inline T __ldcs(const T* place) { return *place; }
template <class T>
static inline T __ldcg(const T* place) { return *place; }
template <class T>
static inline void __stcs(T* place, T value) { *place = value; }
template <class T>
static inline void __stcg(T* place, T value) { *place = value; }

static inline long long clock64() { return 0; }
static inline void __nanosleep(unsigned) {}
