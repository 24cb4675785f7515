// A two-byte float over a format that packs and unpacks it. Every operation rounds once, from float.
#pragma once

namespace cuda_host {

template <class Format>
struct alignas(2) HalfLike {
    uint16_t bits;

    HalfLike() = default;
    explicit HalfLike(float x) : bits(Format::pack(x)) {}
    explicit operator float() const { return Format::unpack(bits); }
    HalfLike& operator=(float x) {
        bits = Format::pack(x);
        return *this;
    }
    static HalfLike from_bits(uint16_t bits) {
        HalfLike out;
        out.bits = bits;
        return out;
    }

    friend HalfLike operator+(HalfLike a, HalfLike b) { return HalfLike(float(a) + float(b)); }
    friend HalfLike operator-(HalfLike a, HalfLike b) { return HalfLike(float(a) - float(b)); }
    friend HalfLike operator*(HalfLike a, HalfLike b) { return HalfLike(float(a) * float(b)); }
    friend HalfLike operator/(HalfLike a, HalfLike b) { return HalfLike(float(a) / float(b)); }
    friend bool operator<(HalfLike a, HalfLike b) { return float(a) < float(b); }
    friend bool operator>(HalfLike a, HalfLike b) { return float(a) > float(b); }
    friend bool operator==(HalfLike a, HalfLike b) { return float(a) == float(b); }
};

template <class T>
struct alignas(4) HalfLike2 {
    T x, y;
};

template <class Format>
static inline HalfLike<Format> fused(HalfLike<Format> a, HalfLike<Format> b, HalfLike<Format> c) {
    return HalfLike<Format>(fmaf(float(a), float(b), float(c)));
}

}  // namespace cuda_host

template <class F>
static inline cuda_host::HalfLike<F> __hadd(cuda_host::HalfLike<F> a, cuda_host::HalfLike<F> b) { return a + b; }
template <class F>
static inline cuda_host::HalfLike<F> __hsub(cuda_host::HalfLike<F> a, cuda_host::HalfLike<F> b) { return a - b; }
template <class F>
static inline cuda_host::HalfLike<F> __hmul(cuda_host::HalfLike<F> a, cuda_host::HalfLike<F> b) { return a * b; }
template <class F>
static inline cuda_host::HalfLike<F> __hfma(cuda_host::HalfLike<F> a, cuda_host::HalfLike<F> b, cuda_host::HalfLike<F> c) {
    return cuda_host::fused(a, b, c);
}
template <class T>
static inline cuda_host::HalfLike2<T> __hadd2(cuda_host::HalfLike2<T> a, cuda_host::HalfLike2<T> b) {
    return {a.x + b.x, a.y + b.y};
}
template <class T>
static inline cuda_host::HalfLike2<T> __hmul2(cuda_host::HalfLike2<T> a, cuda_host::HalfLike2<T> b) {
    return {a.x * b.x, a.y * b.y};
}
template <class T>
static inline cuda_host::HalfLike2<T> __hfma2(cuda_host::HalfLike2<T> a, cuda_host::HalfLike2<T> b, cuda_host::HalfLike2<T> c) {
    return {cuda_host::fused(a.x, b.x, c.x), cuda_host::fused(a.y, b.y, c.y)};
}
