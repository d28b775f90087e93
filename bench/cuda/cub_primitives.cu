// CUB's block and warp primitives, a kernel each. The comment before a kernel says how to launch it, as in the corpus's manifest.
//
// Every kernel reads `in`, works on its block's tile and writes results that do not depend on the order of threads.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>

constexpr int THREADS = 128;
constexpr int ITEMS = 4;
constexpr int TILE = THREADS * ITEMS;

struct Less {
    template <class T> __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};
struct Maximum {
    template <class T> __device__ T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};
struct NotEqual {
    template <class T> __device__ bool operator()(const T &a, const T &b) const { return a != b; }
};
struct Minus {
    template <class T> __device__ T operator()(const T &a, const T &b) const { return a - b; }
};

template <class T> __device__ void take(T (&items)[ITEMS], const T *in) {
    for (int i = 0; i < ITEMS; i++) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
}
template <class T> __device__ void give(const T (&items)[ITEMS], T *out) {
    for (int i = 0; i < ITEMS; i++) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = items[i];
}

template <class T, cub::BlockReduceAlgorithm A> __device__ void reduce(const T *in, T *out) {
    using Block = cub::BlockReduce<T, THREADS, A>;
    __shared__ typename Block::TempStorage storage;
    T items[ITEMS];
    take(items, in);
    T sum = Block(storage).Sum(items);
    __syncthreads();
    T part = Block(storage).Reduce(items[0], Maximum(), THREADS - 17);
    if (threadIdx.x == 0) {
        out[blockIdx.x * 2] = sum;
        out[blockIdx.x * 2 + 1] = part;
    }
}
// launch: {"kernel": "reduce_warps_i32", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 1}, {"poison": 32}]}
extern "C" __global__ void reduce_warps_i32(const int *in, int *out) { reduce<int, cub::BLOCK_REDUCE_WARP_REDUCTIONS>(in, out); }
// launch: {"kernel": "reduce_raking_f32", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f32", "n": 2048, "seed": 2}, {"poison": 32}]}
extern "C" __global__ void reduce_raking_f32(const float *in, float *out) { reduce<float, cub::BLOCK_REDUCE_RAKING>(in, out); }
// launch: {"kernel": "reduce_raking_commutative_f64", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f64", "n": 2048, "seed": 3}, {"poison": 64}]}
extern "C" __global__ void reduce_raking_commutative_f64(const double *in, double *out) {
    reduce<double, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(in, out);
}
// launch: {"kernel": "reduce_warps_i64", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i64", "n": 2048, "seed": 4}, {"poison": 64}]}
extern "C" __global__ void reduce_warps_i64(const long long *in, long long *out) { reduce<long long, cub::BLOCK_REDUCE_WARP_REDUCTIONS>(in, out); }

template <class T, cub::BlockScanAlgorithm A> __device__ void scan(const T *in, T *out) {
    using Block = cub::BlockScan<T, THREADS, A>;
    __shared__ typename Block::TempStorage storage;
    T items[ITEMS], more[ITEMS], total;
    take(items, in);
    Block(storage).ExclusiveSum(items, more, total);
    __syncthreads();
    Block(storage).InclusiveScan(items, items, Maximum());
    for (int i = 0; i < ITEMS; i++) more[i] = more[i] + items[i] + total;
    give(more, out);
}
// launch: {"kernel": "scan_raking_i32", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 5}, {"poison": 8192}]}
extern "C" __global__ void scan_raking_i32(const int *in, int *out) { scan<int, cub::BLOCK_SCAN_RAKING>(in, out); }
// launch: {"kernel": "scan_memoize_f32", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f32", "n": 2048, "seed": 6}, {"poison": 8192}]}
extern "C" __global__ void scan_memoize_f32(const float *in, float *out) { scan<float, cub::BLOCK_SCAN_RAKING_MEMOIZE>(in, out); }
// launch: {"kernel": "scan_warps_f64", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f64", "n": 2048, "seed": 7}, {"poison": 16384}]}
extern "C" __global__ void scan_warps_f64(const double *in, double *out) { scan<double, cub::BLOCK_SCAN_WARP_SCANS>(in, out); }
// launch: {"kernel": "scan_warps_i64", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i64", "n": 2048, "seed": 8}, {"poison": 16384}]}
extern "C" __global__ void scan_warps_i64(const long long *in, long long *out) { scan<long long, cub::BLOCK_SCAN_WARP_SCANS>(in, out); }

template <class K> __device__ void radix_keys(const K *in, K *out, bool down) {
    using Block = cub::BlockRadixSort<K, THREADS, ITEMS>;
    __shared__ typename Block::TempStorage storage;
    K items[ITEMS];
    take(items, in);
    if (down) Block(storage).SortDescending(items);
    else Block(storage).Sort(items);
    give(items, out);
}
// launch: {"kernel": "radix_sort_i32", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 9}, {"poison": 8192}]}
extern "C" __global__ void radix_sort_i32(const int *in, int *out) { radix_keys(in, out, false); }
// launch: {"kernel": "radix_sort_f32_down", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f32", "n": 2048, "seed": 10}, {"poison": 8192}]}
extern "C" __global__ void radix_sort_f32_down(const float *in, float *out) { radix_keys(in, out, true); }
// launch: {"kernel": "radix_sort_u64", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u64", "n": 2048, "seed": 11}, {"poison": 16384}]}
extern "C" __global__ void radix_sort_u64(const unsigned long long *in, unsigned long long *out) { radix_keys(in, out, false); }
// launch: {"kernel": "radix_sort_pairs", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"small": "u32", "n": 2048, "max": 5000, "seed": 12}, {"iota": "u32", "n": 2048}, {"poison": 8192}, {"poison": 8192}]}
extern "C" __global__ void radix_sort_pairs(const unsigned *keys, const unsigned *values, unsigned *key_out, unsigned *value_out) {
    using Block = cub::BlockRadixSort<unsigned, THREADS, ITEMS, unsigned>;
    __shared__ typename Block::TempStorage storage;
    unsigned k[ITEMS], v[ITEMS];
    take(k, keys);
    take(v, values);
    Block(storage).SortBlockedToStriped(k, v, 0, 16);
    give(k, key_out);
    give(v, value_out);
}
// launch: {"kernel": "merge_sort_pairs", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i64", "n": 2048, "seed": 13}, {"iota": "i32", "n": 2048}, {"poison": 16384}, {"poison": 8192}]}
extern "C" __global__ void merge_sort_pairs(const long long *keys, const int *values, long long *key_out, int *value_out) {
    using Block = cub::BlockMergeSort<long long, THREADS, ITEMS, int>;
    __shared__ typename Block::TempStorage storage;
    long long k[ITEMS];
    int v[ITEMS];
    take(k, keys);
    take(v, values);
    Block(storage).StableSort(k, v, Less());
    give(k, key_out);
    give(v, value_out);
}
// launch: {"kernel": "radix_rank", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u32", "n": 2048, "seed": 14}, {"poison": 8192}]}
extern "C" __global__ void radix_rank(const unsigned *in, int *out) {
    using Block = cub::BlockRadixRank<THREADS, 4, false>;
    __shared__ typename Block::TempStorage storage;
    unsigned keys[ITEMS];
    int ranks[ITEMS];
    take(keys, in);
    Block(storage).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(3, 4));
    give(ranks, out);
}

// launch: {"kernel": "exchange_all", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u32", "n": 2048, "seed": 15}, {"poison": 32768}]}
extern "C" __global__ void exchange_all(const unsigned *in, unsigned *out) {
    using Block = cub::BlockExchange<unsigned, THREADS, ITEMS, true>;
    __shared__ typename Block::TempStorage storage;
    unsigned items[ITEMS];
    int ranks[ITEMS];
    take(items, in);
    Block(storage).BlockedToStriped(items);
    give(items, out);
    __syncthreads();
    Block(storage).StripedToBlocked(items);
    give(items, out + 2048);
    __syncthreads();
    Block(storage).BlockedToWarpStriped(items);
    give(items, out + 4096);
    __syncthreads();
    for (int i = 0; i < ITEMS; i++) ranks[i] = (threadIdx.x * ITEMS + i) * 37 % TILE;
    Block(storage).ScatterToStriped(items, ranks);
    give(items, out + 6144);
}
template <cub::BlockHistogramAlgorithm A> __device__ void histogram(const unsigned char *in, unsigned *out) {
    using Block = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 256, A>;
    __shared__ typename Block::TempStorage storage;
    __shared__ unsigned bins[256];
    unsigned char items[ITEMS];
    take(items, in);
    Block(storage).Histogram(items, bins);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += THREADS) out[blockIdx.x * 256 + i] = bins[i];
}
// launch: {"kernel": "histogram_sort", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u8", "n": 2048, "seed": 16}, {"poison": 4096}]}
extern "C" __global__ void histogram_sort(const unsigned char *in, unsigned *out) { histogram<cub::BLOCK_HISTO_SORT>(in, out); }
// launch: {"kernel": "histogram_atomic", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u8", "n": 2048, "seed": 17}, {"poison": 4096}]}
extern "C" __global__ void histogram_atomic(const unsigned char *in, unsigned *out) { histogram<cub::BLOCK_HISTO_ATOMIC>(in, out); }

template <class T, cub::BlockLoadAlgorithm L, cub::BlockStoreAlgorithm S> __device__ void copy(const T *in, T *out, int valid) {
    using Load = cub::BlockLoad<T, THREADS, ITEMS, L>;
    using Store = cub::BlockStore<T, THREADS, ITEMS, S>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } storage;
    T items[ITEMS];
    Load(storage.load).Load(in + blockIdx.x * TILE, items, valid, T(1));
    __syncthreads();
    for (int i = 0; i < ITEMS; i++) items[i] = items[i] + items[ITEMS - 1 - i];
    Store(storage.store).Store(out + blockIdx.x * TILE, items, valid);
}
// launch: {"kernel": "copy_direct", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 18}, {"poison": 8192}]}
extern "C" __global__ void copy_direct(const int *in, int *out) { copy<int, cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(in, out, TILE - 7); }
// launch: {"kernel": "copy_transpose", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f64", "n": 2048, "seed": 19}, {"poison": 16384}]}
extern "C" __global__ void copy_transpose(const double *in, double *out) {
    copy<double, cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(in, out, TILE - 100);
}
// launch: {"kernel": "copy_warp_transpose", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u16", "n": 2048, "seed": 20}, {"poison": 4096}]}
extern "C" __global__ void copy_warp_transpose(const unsigned short *in, unsigned short *out) {
    copy<unsigned short, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>(in, out, TILE - 31);
}
// launch: {"kernel": "copy_vectorized", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 21}, {"poison": 8192}]}
extern "C" __global__ void copy_vectorized(const int *in, int *out) {
    using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_VECTORIZE>;
    using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_STRIPED>;
    int items[ITEMS];
    Load().Load(const_cast<int *>(in) + blockIdx.x * TILE, items);
    Store().Store(out + blockIdx.x * TILE, items);
}

// launch: {"kernel": "discontinuity", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"small": "i32", "n": 2048, "max": 3, "seed": 22}, {"poison": 8192}, {"poison": 8192}]}
extern "C" __global__ void discontinuity(const int *in, int *heads, int *tails) {
    using Block = cub::BlockDiscontinuity<int, THREADS>;
    __shared__ typename Block::TempStorage storage;
    int items[ITEMS], head[ITEMS], tail[ITEMS];
    take(items, in);
    Block(storage).FlagHeadsAndTails(head, tail, items, NotEqual());
    give(head, heads);
    give(tail, tails);
}
// launch: {"kernel": "adjacent_difference", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 23}, {"poison": 8192}, {"poison": 8192}]}
extern "C" __global__ void adjacent_difference(const int *in, int *left, int *right) {
    using Block = cub::BlockAdjacentDifference<int, THREADS>;
    __shared__ typename Block::TempStorage storage;
    int items[ITEMS], result[ITEMS];
    take(items, in);
    Block(storage).SubtractLeft(items, result, Minus());
    give(result, left);
    __syncthreads();
    Block(storage).SubtractRight(items, result, Minus());
    give(result, right);
}
// launch: {"kernel": "shuffle_block", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 24}, {"poison": 8192}, {"poison": 8192}]}
extern "C" __global__ void shuffle_block(const int *in, int *up, int *rotated) {
    using Block = cub::BlockShuffle<int, THREADS>;
    __shared__ typename Block::TempStorage storage;
    int items[ITEMS], result[ITEMS], turned[ITEMS];
    take(items, in);
    Block(storage).Up(items, result);
    if (threadIdx.x == 0) result[0] = 0;
    give(result, up);
    for (int i = 0; i < ITEMS; i++) {
        __syncthreads();
        Block(storage).Rotate(items[i], turned[i], 5 + i);
    }
    give(turned, rotated);
}
// launch: {"kernel": "run_length_decode", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 25}, {"small": "u32", "n": 2048, "max": 4, "seed": 26}, {"poison": 16384}]}
extern "C" __global__ void run_length_decode(const int *values, const unsigned *lengths, int *out) {
    using Block = cub::BlockRunLengthDecode<int, THREADS, ITEMS, 8>;
    __shared__ typename Block::TempStorage storage;
    int v[ITEMS], decoded[8];
    unsigned n[ITEMS], total = 0;
    take(v, values);
    take(n, lengths);
    for (int i = 0; i < ITEMS; i++) n[i] += 1;
    Block block(storage, v, n, total);
    block.RunLengthDecode(decoded, 0);
    for (int i = 0; i < 8; i++) {
        int at = threadIdx.x * 8 + i;
        out[blockIdx.x * THREADS * 8 + at] = at < total ? decoded[i] : -1;
    }
}

template <class T, int LANES> __device__ void warp(const T *in, T *out) {
    using Reduce = cub::WarpReduce<T, LANES>;
    using Scan = cub::WarpScan<T, LANES>;
    __shared__ typename Reduce::TempStorage reduce_storage[THREADS / LANES];
    __shared__ typename Scan::TempStorage scan_storage[THREADS / LANES];
    int at = blockIdx.x * THREADS + threadIdx.x, w = threadIdx.x / LANES;
    T x = in[at];
    T sum = Reduce(reduce_storage[w]).Sum(x);
    T most = Reduce(reduce_storage[w]).Reduce(x, Maximum(), LANES - 3);
    T before, total;
    Scan(scan_storage[w]).ExclusiveSum(x, before, total);
    T peak;
    Scan(scan_storage[w]).InclusiveScan(x, peak, Maximum());
    // Only the first lane of each group has the reductions.
    bool first = threadIdx.x % LANES == 0;
    out[at] = before + total + peak + (first ? sum + most : T(0));
}
// launch: {"kernel": "warp_i32", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 512, "seed": 27}, {"poison": 2048}]}
extern "C" __global__ void warp_i32(const int *in, int *out) { warp<int, 32>(in, out); }
// launch: {"kernel": "warp_f32_eighths", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f32", "n": 512, "seed": 28}, {"poison": 2048}]}
extern "C" __global__ void warp_f32_eighths(const float *in, float *out) { warp<float, 8>(in, out); }
// launch: {"kernel": "warp_f64", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"uniform": "f64", "n": 512, "seed": 29}, {"poison": 4096}]}
extern "C" __global__ void warp_f64(const double *in, double *out) { warp<double, 32>(in, out); }

// launch: {"kernel": "warp_merge_sort", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 30}, {"poison": 8192}]}
extern "C" __global__ void warp_merge_sort(const int *in, int *out) {
    using Warp = cub::WarpMergeSort<int, ITEMS, 32>;
    __shared__ typename Warp::TempStorage storage[THREADS / 32];
    int items[ITEMS];
    take(items, in);
    Warp(storage[threadIdx.x / 32]).Sort(items, Less());
    give(items, out);
}
// launch: {"kernel": "warp_exchange", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "u32", "n": 2048, "seed": 31}, {"poison": 8192}, {"poison": 8192}]}
extern "C" __global__ void warp_exchange(const unsigned *in, unsigned *striped, unsigned *blocked) {
    using Warp = cub::WarpExchange<unsigned, ITEMS, 32>;
    __shared__ typename Warp::TempStorage storage[THREADS / 32];
    unsigned items[ITEMS], result[ITEMS];
    take(items, in);
    Warp(storage[threadIdx.x / 32]).BlockedToStriped(items, result);
    give(result, striped);
    __syncwarp();
    Warp(storage[threadIdx.x / 32]).StripedToBlocked(items, result);
    give(result, blocked);
}
// launch: {"kernel": "warp_copy", "grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"rand": "i32", "n": 2048, "seed": 32}, {"poison": 8192}]}
extern "C" __global__ void warp_copy(const int *in, int *out) {
    using Load = cub::WarpLoad<int, ITEMS, cub::WARP_LOAD_TRANSPOSE>;
    using Store = cub::WarpStore<int, ITEMS, cub::WARP_STORE_TRANSPOSE>;
    __shared__ typename Load::TempStorage load[THREADS / 32];
    __shared__ typename Store::TempStorage store[THREADS / 32];
    int w = threadIdx.x / 32, base = blockIdx.x * TILE + w * 32 * ITEMS;
    int items[ITEMS];
    Load(load[w]).Load(in + base, items);
    for (int i = 0; i < ITEMS; i++) items[i] ^= i;
    Store(store[w]).Store(out + base, items);
}
