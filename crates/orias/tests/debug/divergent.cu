extern "C" __global__ void divergent(int *out, const int *in) {
  int lane = threadIdx.x;
  int value = in[lane];
  int kind;
  if (value < 0) {
    int minus = -value;
    kind = minus * 10;
  } else if (value & 1) {
    int odd = value + 100;
    kind = odd;
  } else {
    kind = 1;
  }
  int all = __reduce_add_sync(0xffffffff, kind);
  out[lane] = all + kind;
}
