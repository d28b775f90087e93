extern "C" __global__ void loops(int *out, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) {
    int square = i * i;
    sum += square;
    if (sum > 20)
      break;
  }
  int k = n;
  while (k > 1) {
    k = (k & 1) ? 3 * k + 1 : k / 2;
    sum++;
  }
  out[threadIdx.x] = sum;
}
