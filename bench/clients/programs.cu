// CUDA programs for `cuda_client.py`: `programs NAME FILE` launches one of them 20 times on fixed inputs, prints how many seconds each launch
// took, and writes what it leaves to a file.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

typedef unsigned word;

static void check(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

// Sums of all elements before and at each, within blocks of 256.
__global__ void scan(const word *in, word *out)
{
    __shared__ word sums[8];
    int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    word sum = in[at];
    for (int step = 1; step < 32; step *= 2) {
        word other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    for (int before = 0; before < warp; before++)
        sum += sums[before];
    out[at] = sum;
}

// A square matrix of 1024 rows.
__global__ void transpose(const word *in, word *out)
{
    __shared__ word tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * 1024 + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    out[y * 1024 + x] = tile[threadIdx.x][threadIdx.y];
}

// Forces between 4096 bodies, as bits of floats.
__global__ void nbody(const word *in, word *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    auto place = [&](int i) {
        return make_float3((in[3 * i] & 0xffff) * 1e-4f, (in[3 * i + 1] & 0xffff) * 1e-4f, (in[3 * i + 2] & 0xffff) * 1e-4f);
    };
    float3 own = place(at), force = make_float3(0, 0, 0);
    for (int i = 0; i < 4096; i++) {
        float3 other = place(i);
        float x = other.x - own.x, y = other.y - own.y, z = other.z - own.z;
        float square = x * x + y * y + z * z + 1e-3f, inverse = rsqrtf(square), pull = inverse * inverse * inverse;
        force.x += x * pull;
        force.y += y * pull;
        force.z += z * pull;
    }
    out[3 * at] = __float_as_uint(force.x);
    out[3 * at + 1] = __float_as_uint(force.y);
    out[3 * at + 2] = __float_as_uint(force.z);
}

// Every block sorts 512 words, bitonically.
__global__ void sort(const word *in, word *out)
{
    __shared__ word words[512];
    int at = threadIdx.x;
    words[at] = in[blockIdx.x * 512 + at];
    for (int size = 2; size <= 512; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int other = at ^ step;
            word own = words[at], theirs = words[other];
            __syncthreads();
            bool up = (at & size) == 0, first = at < other;
            if ((own > theirs) == (up == first))
                words[at] = theirs;
        }
    __syncthreads();
    out[blockIdx.x * 512 + at] = words[at];
}

__device__ __noinline__ bool vowel(char letter)
{
    switch (letter) {
    case 'a': case 'e': case 'i': case 'o': case 'u': return true;
    default: return false;
    }
}

// Longest runs of letters without a vowel in lines of 64 letters, with branches that part lanes.
__global__ void strings(const word *in, word *out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    const char *line = (const char *)(in + at * 16);
    word longest = 0, run = 0;
    for (int i = 0; i < 64; i++) {
        char letter = 'a' + (unsigned char)line[i] % 26;
        if (vowel(letter)) {
            longest = max(longest, run);
            run = 0;
        } else
            run++;
    }
    out[at] = max(longest, run);
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    const int size = 1 << 20;
    std::vector<word> data(size);
    word state = 12345;
    for (word &value : data)
        value = state = state * 1664525u + 1013904223u;
    word *in, *out;
    check(cudaMalloc(&in, size * sizeof(word)));
    check(cudaMalloc(&out, size * sizeof(word)));
    check(cudaMemcpy(in, data.data(), size * sizeof(word), cudaMemcpyHostToDevice));
    check(cudaMemset(out, 0, size * sizeof(word)));
    cudaEvent_t before, after;
    check(cudaEventCreate(&before));
    check(cudaEventCreate(&after));
    for (int i = 0; i < 20; i++) {
        check(cudaEventRecord(before));
        if (!strcmp(words[1], "scan"))
            scan<<<size / 256, 256>>>(in, out);
        else if (!strcmp(words[1], "transpose"))
            transpose<<<dim3(32, 32), dim3(32, 32)>>>(in, out);
        else if (!strcmp(words[1], "nbody"))
            nbody<<<32, 128>>>(in, out);
        else if (!strcmp(words[1], "sort"))
            sort<<<size / 512, 512>>>(in, out);
        else if (!strcmp(words[1], "strings"))
            strings<<<size / 16 / 256, 256>>>(in, out);
        else
            return 2;
        check(cudaGetLastError());
        check(cudaEventRecord(after));
        check(cudaEventSynchronize(after));
        float milliseconds;
        check(cudaEventElapsedTime(&milliseconds, before, after));
        printf("%.9f\n", milliseconds / 1e3);
    }
    check(cudaMemcpy(data.data(), out, size * sizeof(word), cudaMemcpyDeviceToHost));
    FILE *file = fopen(words[2], "wb");
    if (!file || fwrite(data.data(), sizeof(word), size, file) != size)
        return 1;
    fclose(file);
    return 0;
}
