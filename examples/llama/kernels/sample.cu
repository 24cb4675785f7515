// Draws tokens as `graph_resources::sample_row` defines it, to the bit: all sums are of integers, so that their order
// does not matter, and weights are made of operations that IEEE 754 defines. A block has one row of the logits.
#include "common.cuh"

#define THREADS 256
#define BYTES 256

// Words of a row of the state.
#define WORDS 8
#define SEED 0
#define COUNTER 2
#define TEMPERATURE 4
#define TOP_K 5
#define TOP_P 6

// ln(2)^k / k!: the series of 2^f.
__constant__ double TAYLOR[14] = {
    0x1.0000000000000p+0,  0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58ep-3,  0x1.c6b08d704a0bfp-5,  0x1.3b2ab6fba4e77p-7,
    0x1.5d87fe78a6731p-10, 0x1.430912f86c787p-13, 0x1.ffcbfc588b0c6p-17, 0x1.62c0223a5c823p-20, 0x1.b5253d395e7c3p-24,
    0x1.e4cf5158b8ec8p-28, 0x1.e8cac7351bb23p-32, 0x1.c3bd650fc2984p-36, 0x1.816193166d0f7p-40,
};
#define LOG2_E 0x1.71547652b82fep+0
// The weight of the largest token.
#define ONE 4294967296.0

__device__ inline bool is_nan(float x) { return x != x; }

// Ordered as the logits are; -0 is 0, and NaN is below everything.
__device__ inline u32 key_of(float logit) {
    u32 bits = __float_as_uint(logit + 0.0f);
    if (is_nan(logit)) return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// What a token counts for in top-k.
struct Each {
    __device__ u64 operator()(float) const { return 1; }
};

// floor(2^32 * exp((logit - top) / temperature)), to about 30 bits.
struct Weight {
    float top;
    float temperature;

    __device__ u64 operator()(float logit) const {
        if (logit == top) return (u64)ONE;
        double x = ((double)logit - (double)top) / (double)temperature * LOG2_E;
        if (x != x || x < -32.0) return 0;
        double whole = floor(x), part = x - whole, power = TAYLOR[13];
        for (int k = 12; k >= 0; --k) power = power * part + TAYLOR[k];
        return (u64)(power * ONE) >> (int)-whole;
    }
};

// The tokens above a key, and those at it up to an id.
struct Cut {
    u32 key;
    u32 last;
};

// A row of logits, and the memory that the block's threads share.
struct Row {
    const float* logits;
    u32 count;
    u64* sums;   // BYTES
    u64* found;  // 2

    __device__ bool kept(u32 id, Cut cut) const {
        u32 key = key_of(logits[id]);
        return key > cut.key || (key == cut.key && id <= cut.last);
    }

    // Each thread has consecutive ids, in the order of the threads.
    __device__ u32 begin() const { return min(threadIdx.x * share(), count); }
    __device__ u32 end() const { return min(begin() + share(), count); }
    __device__ u32 share() const { return (count + THREADS - 1) / THREADS; }

    // The sum of what all threads give, for all of them.
    __device__ u64 total(u64 mine) const {
        sums[threadIdx.x] = mine;
        __syncthreads();
        for (u32 half = THREADS / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
            __syncthreads();
        }
        u64 sum = sums[0];
        __syncthreads();
        return sum;
    }

    // The first kept token at which the running sum in order of ids exceeds `target`; `none` without one.
    template <class Weigh>
    __device__ u32 where(Cut cut, Weigh weigh, u64 target, u32 none) const {
        u64 mine = 0;
        for (u32 id = begin(); id < end(); ++id) mine += kept(id, cut) ? weigh(logits[id]) : 0;
        sums[threadIdx.x] = mine;
        if (threadIdx.x == 0) found[0] = none;
        __syncthreads();
        u64 before = 0;
        for (u32 thread = 0; thread < threadIdx.x; ++thread) before += sums[thread];
        if (before <= target && before + mine > target) {
            for (u32 id = begin(); id < end(); ++id) {
                before += kept(id, cut) ? weigh(logits[id]) : 0;
                if (before > target) {
                    found[0] = id;
                    break;
                }
            }
        }
        __syncthreads();
        u32 id = (u32)found[0];
        __syncthreads();
        return id;
    }

    template <class Weigh>
    __device__ u64 weigh_all(Cut cut, Weigh weigh) const {
        u64 mine = 0;
        for (u32 id = threadIdx.x; id < count; id += THREADS) mine += kept(id, cut) ? weigh(logits[id]) : 0;
        return total(mine);
    }

    // The smallest cut within `cut` whose tokens weigh `enough`: one byte of the key after the other.
    template <class Weigh>
    __device__ Cut threshold(Cut cut, Weigh weigh, u64 enough) const {
        u32 prefix = 0;
        u64 above = 0;
        for (int shift = 24; shift >= 0; shift -= 8) {
            sums[threadIdx.x] = 0;
            __syncthreads();
            for (u32 id = threadIdx.x; id < count; id += THREADS) {
                u32 key = key_of(logits[id]);
                // The bytes before this one are decided.
                bool candidate = (u64)(key ^ prefix) >> (shift + 8) == 0;
                if (candidate && kept(id, cut)) atomicAdd(&sums[key >> shift & 0xff], weigh(logits[id]));
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                u32 byte = BYTES - 1;
                for (; byte > 0 && above + sums[byte] < enough; --byte) above += sums[byte];
                found[0] = prefix | byte << shift;
                found[1] = above;
            }
            __syncthreads();
            prefix = (u32)found[0];
            above = found[1];
            __syncthreads();
        }
        // All tokens at the key have one logit, so one weight.
        if (threadIdx.x == 0) found[1] = 1;
        __syncthreads();
        for (u32 id = threadIdx.x; id < count; id += THREADS)
            if (key_of(logits[id]) == prefix && weigh(logits[id]) > 0) found[1] = weigh(logits[id]);
        __syncthreads();
        u64 each = found[1], missing = enough > above ? enough - above : 0;
        u64 ties = (missing + each - 1) / each;
        __syncthreads();
        return {prefix, tie(prefix, ties)};
    }

    // The id of the token at the key that is number `ties` of them.
    __device__ u32 tie(u32 key, u64 ties) const {
        u64 mine = 0;
        for (u32 id = begin(); id < end(); ++id) mine += key_of(logits[id]) == key;
        sums[threadIdx.x] = mine;
        if (threadIdx.x == 0) found[0] = count;
        __syncthreads();
        u64 before = 0;
        for (u32 thread = 0; thread < threadIdx.x; ++thread) before += sums[thread];
        if (before < ties && before + mine >= ties) {
            u32 id = begin();
            for (; before < ties; ++id) before += key_of(logits[id]) == key;
            found[0] = id - 1;
        }
        __syncthreads();
        u32 id = (u32)found[0];
        __syncthreads();
        return id;
    }

    // The largest token; the lowest id of equals.
    __device__ u32 largest() const {
        u64 best = 0;
        for (u32 id = threadIdx.x; id < count; id += THREADS) {
            u64 mine = (u64)key_of(logits[id]) << 31 | (0x7fffffffu - id);
            best = best < mine ? mine : best;
        }
        sums[threadIdx.x] = best;
        __syncthreads();
        for (u32 thread = 0; thread < THREADS; ++thread) best = best < sums[thread] ? sums[thread] : best;
        __syncthreads();
        return 0x7fffffffu - (u32)(best & 0x7fffffffu);
    }
};

// The high half of a product.
__device__ inline u64 high(u64 a, u64 b) {
    u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
    u64 middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (u32)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

// The first two words of the Philox 4x32-10 block at a counter.
__device__ inline u64 philox(u64 counter, u64 seed) {
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        u64 p0 = (u64)0xd2511f53u * c0, p1 = (u64)0xcd9e8d57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return (u64)c1 << 32 | c0;
}

// tokens[i] is drawn from row i of the logits with row rows[i] of the state, whose counter advances. A row that there is
// not draws like the sink: greedily.
extern "C" __global__ void __launch_bounds__(THREADS) sample(
    int* tokens, u32* state, const float* logits, const int* rows, u32 state_rows, u32 count)
{
    __shared__ u64 sums[BYTES];
    __shared__ u64 found[2];
    Row row = {logits + (u64)blockIdx.x * count, count, sums, found};
    u32 at = (u32)rows[blockIdx.x];
    u32* words = state + (u64)(at < state_rows ? at : 0) * WORDS;
    float temperature = at < state_rows ? __uint_as_float(words[TEMPERATURE]) : 0.0f;
    u32 token = row.largest();
    // The same for the whole block.
    if (temperature != 0.0f) {
        u64 seed = (u64)words[SEED + 1] << 32 | words[SEED];
        u64 counter = (u64)words[COUNTER + 1] << 32 | words[COUNTER];
        float top_p = __uint_as_float(words[TOP_P]);
        Weight weigh = {row.logits[token], temperature};
        Cut cut = {0, 0xffffffffu};
        if (words[TOP_K] > 0 && words[TOP_K] < count) cut = row.threshold(cut, Each(), words[TOP_K]);
        u64 sum = row.weigh_all(cut, weigh);
        if (top_p < 1.0f) {
            u64 enough = (u64)ceil((double)top_p * (double)sum), most = sum > 1 ? sum : 1;
            cut = row.threshold(cut, weigh, enough < 1 ? 1 : enough < most ? enough : most);
            sum = row.weigh_all(cut, weigh);
        }
        token = row.where(cut, weigh, high(philox(counter, seed), sum), token);
        if (threadIdx.x == 0) {
            words[COUNTER] = (u32)(counter + 1);
            words[COUNTER + 1] = (u32)((counter + 1) >> 32);
        }
    }
    if (threadIdx.x == 0) tokens[blockIdx.x] = (int)token;
}
