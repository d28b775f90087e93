// Warp-specialised pipelines: a warp copies, two warp groups compute, mbarriers pass tiles between them in a ring, and both blocks of a cluster
// get each tile, half of it copied by either.
//
//   nvcc -ptx -arch=sm_90a pipelines.cu
//
// Three shapes: bound by copies (a tensor map, 16 KiB tiles), a ring of two (arithmetic on tiles of 8 KiB), and small messages (512 bytes).
#include <cstdint>

constexpr int THREADS = 384, CONSUMERS = 256, MOST_BLOCKS = 32;

// The map of an array of rows of 64 floats, taken 32 rows at a time, for each block; the kernel puts the address of its input in.
#define MAP {0, 0, 0x390, 0x10, 0, 0, 0, 0, 0x3f, 0x2fff, 0, 0, 0, 0x3f000000, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
__device__ __align__(128) uint32_t maps[MOST_BLOCKS][32] = {
    MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP,
    MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP, MAP,
};

__device__ __forceinline__ uint32_t shared_address(const void* at) { return (uint32_t)__cvta_generic_to_shared(at); }

__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred over;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@over bra DONE_%=;\nbra WAIT_%=;\nDONE_%=:\n}"
        :: "r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}"
        :: "r"(barrier), "r"(rank) : "memory");
}

template <int STAGES, int FLOATS, int WORK, bool TENSOR>
__device__ __forceinline__ void pipeline(const float* in, float* out, int tiles) {
    extern __shared__ __align__(1024) float ring[];
    __shared__ __align__(8) uint64_t full[STAGES], empty[STAGES];
    const int thread = threadIdx.x, group = thread >> 7;
    const uint32_t rank = blockIdx.x & 1;
    constexpr uint32_t HALF = FLOATS / 2;
    if (thread == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&full[stage])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(&empty[stage])), "r"(2 * CONSUMERS / 32) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        if (TENSOR) {
            asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" :: "l"(maps[blockIdx.x]), "l"(in) : "memory");
            asm volatile("fence.proxy.tensormap::generic.release.gpu;\nfence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
                :: "l"(maps[blockIdx.x]) : "memory");
        }
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (thread == 0) {
            const int first = (blockIdx.x >> 1) * tiles;
            for (int tile = 0; tile < tiles; ++tile) {
                const int stage = tile % STAGES, lap = tile / STAGES;
                const uint32_t barrier = shared_address(&full[stage]);
                const uint32_t to = shared_address(ring + stage * FLOATS + rank * HALF);
                wait(shared_address(&empty[stage]), (lap & 1) ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(FLOATS * 4) : "memory");
                if (TENSOR) {
                    asm volatile(
                        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                        :: "r"(to), "l"(maps[blockIdx.x]), "r"(0), "r"((first + tile) * (FLOATS / 64) + (int)rank * (FLOATS / 128)), "r"(barrier), "h"((uint16_t)3) : "memory");
                } else {
                    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                        :: "r"(to), "l"(in + (size_t)(first + tile) * FLOATS + rank * HALF), "r"(HALF * 4), "r"(barrier), "h"((uint16_t)3) : "memory");
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int consumer = thread - 128;
        float sum = (float)rank, product = 1.0f;
        for (int tile = 0; tile < tiles; ++tile) {
            const int stage = tile % STAGES, lap = tile / STAGES;
            wait(shared_address(&full[stage]), lap & 1);
            const float* at = ring + stage * FLOATS;
#pragma unroll
            for (int part = 0; part < (FLOATS + CONSUMERS - 1) / CONSUMERS; ++part) {
                const float value = at[(consumer + part * CONSUMERS) % FLOATS];
                sum += value;
#pragma unroll
                for (int step = 1; step < WORK; ++step) {
                    product = fmaf(product, value, 0.25f * step);
                }
            }
            __syncwarp();
            if ((thread & 31) < 2) {
                arrive_at(shared_address(&empty[stage]), thread & 31);
            }
        }
        out[blockIdx.x * CONSUMERS + consumer] = sum + product;
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) bound_by_copies(const float* in, float* out, int tiles) {
    pipeline<4, 4096, 1, true>(in, out, tiles);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) ring_of_two(const float* in, float* out, int tiles) {
    pipeline<2, 2048, 8, false>(in, out, tiles);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) small_messages(const float* in, float* out, int tiles) {
    pipeline<8, 128, 1, false>(in, out, tiles);
}
