__device__ __noinline__ double mean(const double *values, int count) {
  double sum = 0.0;
  for (int i = 0; i < count; i++)
    sum += values[i];
  return sum / count;
}
extern "C" __global__ void doubles(double *out, int count) {
  double local[5];
  for (int i = 0; i < 5; i++)
    local[i] = i + 0.25;
  double average = mean(local, count);
  double root = sqrt(average);
  out[threadIdx.x] = root * root;
}
