extern "C" __global__ void scalars(int *out, int n, float scale) {
  int i = threadIdx.x;
  float f = i * scale;
  double d = f + 0.5;
  long long wide = (long long)n << 33;
  unsigned char small = (unsigned char)(n + 250);
  short half = (short)-n;
  bool odd = (i & 1) != 0;
  unsigned u = 0x80000000u + i;
  out[i] = (int)f + (int)d + (int)(wide >> 33) + small + half + odd + (int)(u >> 28);
}
