struct Pair { int left; float right; };
struct Nest { Pair pair; double deep; short tail[4]; };
__device__ __noinline__ int add(Pair p, Nest *n) {
  n->pair.left += p.left;
  n->tail[2] = 7;
  return (int)n->deep + n->tail[2];
}
extern "C" __global__ void structs(int *out, Pair given) {
  Nest nest;
  nest.pair = given;
  nest.deep = 2.5;
  for (int j = 0; j < 4; j++)
    nest.tail[j] = (short)(10 * j);
  int table[6];
  for (int j = 0; j < 6; j++)
    table[j] = j * given.left;
  int got = add(given, &nest);
  out[threadIdx.x] = got + table[5] + nest.pair.left;
}
