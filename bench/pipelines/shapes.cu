// More warp-specialised pipelines, whose groups are told apart by `threadIdx.x` alone: a ring of four with arrivals of one lane, stages in a chain where all threads arrive, and
// blocks of a cluster that copy for each other and bring results back by copies.
//
//   nvcc -ptx -arch=sm_90a shapes.cu
#include <cstdint>

__device__ __forceinline__ uint32_t shared_address(const void* at) { return (uint32_t)__cvta_generic_to_shared(at); }

__device__ __forceinline__ void set_up(uint64_t* barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred over;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@!over bra WAIT_%=;\n}"
        :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void arrive_remotely(uint64_t* barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}"
        :: "r"(shared_address(barrier)), "r"(rank) : "memory");
}

__device__ __forceinline__ void expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ bool elected() {
    uint32_t chosen;
    asm volatile("{\n.reg .pred chosen;\nelect.sync _|chosen, 0xffffffff;\nselp.u32 %0, 1, 0, chosen;\n}" : "=r"(chosen));
    return chosen != 0;
}

// A ring of four: three warp groups share each tile, one lane of each warp says that it is free.
extern "C" __global__ void __launch_bounds__(512, 1) ring_of_four(const float* in, float* out, int tiles) {
    constexpr int STAGES = 4, FLOATS = 768;
    __shared__ __align__(128) float ring[STAGES][FLOATS];
    __shared__ __align__(8) uint64_t full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            set_up(&full[stage], 1);
            set_up(&empty[stage], 12);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp == 0 && elected()) {
            for (int tile = 0; tile < tiles; ++tile) {
                const int stage = tile % STAGES;
                wait(&empty[stage], ((tile / STAGES) & 1) ^ 1);
                expect(&full[stage], FLOATS * 4);
                copy(ring[stage], in + ((size_t)blockIdx.x * tiles + tile) * FLOATS, FLOATS * 4, &full[stage]);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
        const int consumer = threadIdx.x - 128;
        float sum = 0.0f;
        for (int tile = 0; tile < tiles; ++tile) {
            const int stage = tile % STAGES;
            wait(&full[stage], (tile / STAGES) & 1);
            const float one = ring[stage][consumer], other = ring[stage][consumer + 384];
            sum = fmaf(one, other, sum);
            __syncwarp();
            if (lane == 0) {
                arrive(&empty[stage]);
            }
        }
        out[blockIdx.x * 384 + consumer] = sum;
    }
}

// A chain: copies, a warp group that scales what came into a second ring, and one that adds it up; all threads arrive.
extern "C" __global__ void __launch_bounds__(384, 1) chain(const float* in, float* out, int tiles) {
    constexpr int STAGES = 3, FLOATS = 256;
    __shared__ __align__(128) float first[STAGES][FLOATS], second[STAGES][FLOATS];
    __shared__ __align__(8) uint64_t full[STAGES], empty[STAGES], done[STAGES], taken[STAGES];
    const int thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            set_up(&full[stage], 1);
            set_up(&empty[stage], 128);
            set_up(&done[stage], 128);
            set_up(&taken[stage], 128);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int stage = 0, parity = 0;
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) {
            for (int tile = 0; tile < tiles; ++tile) {
                wait(&empty[stage], parity ^ 1);
                expect(&full[stage], FLOATS * 4);
                copy(first[stage], in + ((size_t)blockIdx.x * tiles + tile) * FLOATS, FLOATS * 4, &full[stage]);
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
    } else if (threadIdx.x < 256) {
        for (int tile = 0; tile < tiles; ++tile) {
            wait(&full[stage], parity);
            wait(&taken[stage], parity ^ 1);
            for (int part = 0; part < FLOATS / 128; ++part) {
                second[stage][part * 128 + thread] = first[stage][part * 128 + thread] * 0.5f + (float)tile;
            }
            arrive(&empty[stage]);
            arrive(&done[stage]);
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    } else {
        float sum = 0.0f;
        for (int tile = 0; tile < tiles; ++tile) {
            wait(&done[stage], parity);
            for (int part = 0; part < FLOATS / 128; ++part) {
                sum += second[stage][part * 128 + 127 - thread];
            }
            arrive(&taken[stage]);
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
        out[blockIdx.x * 128 + thread] = sum;
    }
}

// Two blocks of a cluster: the producer of each copies from its own tiles into the ring of both, and results go back by copies of the consumers.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1) there_and_back(const float* in, float* out, int tiles) {
    constexpr int STAGES = 4, FLOATS = 256;
    __shared__ __align__(128) float ring[STAGES][FLOATS], back[2][FLOATS];
    __shared__ __align__(8) uint64_t full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, thread = threadIdx.x % 128;
    const uint32_t rank = blockIdx.x & 1;
    constexpr int HALF = FLOATS / 2;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            set_up(&full[stage], 1);
            set_up(&empty[stage], 8);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (warp >= 4) {
        if (warp == 4 && lane == 0) {
            for (int tile = 0; tile < tiles; ++tile) {
                const int stage = tile % STAGES;
                wait(&empty[stage], ((tile / STAGES) & 1) ^ 1);
                expect(&full[stage], FLOATS * 4);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                    :: "r"(shared_address(ring[stage] + rank * HALF)), "l"(in + ((size_t)(blockIdx.x >> 1) * tiles + tile) * FLOATS + rank * HALF), "r"(HALF * 4),
                       "r"(shared_address(&full[stage])), "h"((uint16_t)3) : "memory");
            }
        }
    } else {
        for (int tile = 0; tile < tiles; ++tile) {
            const int stage = tile % STAGES;
            wait(&full[stage], (tile / STAGES) & 1);
            const float low = ring[stage][thread], high = ring[stage][thread + 128];
            __syncwarp();
            if (lane < 2) {
                arrive_remotely(&empty[stage], lane);
            }
            if (thread == 0) {
                asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            }
            asm volatile("bar.sync 1, 128;" ::: "memory");
            back[tile & 1][thread] = low + high;
            back[tile & 1][thread + 128] = low - high;
            asm volatile("fence.proxy.async.shared::cta;\nbar.sync 1, 128;" ::: "memory");
            if (thread == 0) {
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;"
                    :: "l"(out + ((size_t)blockIdx.x * tiles + tile) * FLOATS), "r"(shared_address(back[tile & 1])), "r"(FLOATS * 4) : "memory");
            }
        }
        if (thread == 0) {
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
