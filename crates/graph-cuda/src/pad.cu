// Fills the rows [real, rows) of one static buffer. `real` is word `word` of the slot's block, read here, so that one
// graph serves every real size of its bucket.
//
// `kind` is 0 for a value and 1 for the last real row again (the value where there is no real row). The value is a
// pattern of eight bytes that begins anew at every multiple of eight bytes of the buffer.

typedef unsigned int u32;
typedef unsigned long long u64;

// In words of four bytes.
extern "C" __global__ void pad_rows_words(
    u32* data, const u32* block, u32 word, u32 row, u32 rows, u32 kind, u64 value)
{
    u32 real = block[word];
    u64 end = (u64)rows * row;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)real * row + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < end; i += step) {
        data[i] = kind == 1 && real > 0 ? data[(u64)(real - 1) * row + i % row] : (u32)(value >> (32 * (i & 1)));
    }
}

// In bytes.
extern "C" __global__ void pad_rows_bytes(
    unsigned char* data, const u32* block, u32 word, u32 row, u32 rows, u32 kind, u64 value)
{
    u32 real = block[word];
    u64 end = (u64)rows * row;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)real * row + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < end; i += step) {
        data[i] = kind == 1 && real > 0 ? data[(u64)(real - 1) * row + i % row] : (unsigned char)(value >> (8 * (i & 7)));
    }
}
