// Vector types and their constructors.
#pragma once

struct uint3 { unsigned x, y, z; };

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define CUDA_HOST_VECTORS(type, name, pair, quad)                                                   \
    struct alignas(pair) name##2 { type x, y; };                                                    \
    struct name##3 { type x, y, z; };                                                               \
    struct alignas(quad) name##4 { type x, y, z, w; };                                              \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                         \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }              \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUDA_HOST_VECTORS(float, float, 8, 16)
CUDA_HOST_VECTORS(double, double, 16, 16)
CUDA_HOST_VECTORS(int, int, 8, 16)
CUDA_HOST_VECTORS(signed char, char, 2, 4)
CUDA_HOST_VECTORS(unsigned char, uchar, 2, 4)
CUDA_HOST_VECTORS(short, short, 4, 8)
CUDA_HOST_VECTORS(unsigned short, ushort, 4, 8)
CUDA_HOST_VECTORS(long long, longlong, 16, 16)
CUDA_HOST_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef CUDA_HOST_VECTORS

// Without uint3, which is above because the built-in variables need it.
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
