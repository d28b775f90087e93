extern "C" __global__ void many(unsigned *out, unsigned n) {
  unsigned a = n + 1, b = a * 3, c = b ^ 0x55, d = c << 2, e = d + a, f = e | b, g = f - c, h = g * 7;
  unsigned i = h + n, j = i & 0xff, k = j + b, l = k * k, m = l >> 3, o = m + e, p = o ^ g, q = p + d;
  unsigned r = a + b + c + d + e + f + g + h;
  unsigned s = i + j + k + l + m + o + p + q;
  out[threadIdx.x] = r ^ s;
}
