"""torch.compile: a step of a small Llama and a step of a small ResNet, as inductor makes them and with max-autotune."""

import os

from gpu import lacks_hopper as lacks
from triton_client import ptxas

PACKAGES = ("torch", "triton", "numpy")

# What max-autotune chooses by measured time is not the same twice: products of other tiles sum in another order.
TOLERANCES = {"llama_step_max_autotune": 0.03, "resnet_step_max_autotune": 0.01}


def switch(fallback):
    import orias

    return orias.torch.enable(fallback=fallback)


def llama():
    """A decoder of two layers: RMS norm, rotary positions, causal attention, a gated MLP."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype) * self.weight

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.before, self.between = Norm(width), Norm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, 3 * width), (width, 3 * width), (3 * width, width)))

        def forward(self, x, cos, sin):
            batch, length, width = x.shape
            q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            inner = self.between(x)
            return x + self.down(functional.silu(self.gate(inner)) * self.up(inner))

    class Llama(nn.Module):
        def __init__(self, words=4096, width=512, heads=8, layers=2):
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
            self.norm, self.head = Norm(width), nn.Linear(width, words, bias=False)
            self.size = width // heads

        def forward(self, tokens):
            length = tokens.shape[1]
            speed = 1e4 ** (-torch.arange(0, self.size, 2, device=tokens.device) / self.size)
            angle = torch.outer(torch.arange(length, device=tokens.device), speed).repeat(1, 2)
            x = self.embedding(tokens)
            cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            for layer in self.layers:
                x = layer(x, cos, sin)
            return self.head(self.norm(x))

    model = Llama().cuda().bfloat16()
    tokens = torch.randint(0, 4096, (4, 512), device="cuda")
    loss = lambda out: functional.cross_entropy(out[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
    return model, tokens, loss


def resnet():
    """Three stages; the last two halve the image."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            self.first = nn.Conv2d(before, width, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.one, self.two = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
            self.past = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            return functional.relu(self.two(self.second(functional.relu(self.one(self.first(x))))) + self.past(x))

    shapes = [(3, 32, 1), (32, 64, 2), (64, 128, 2)]
    model = nn.Sequential(*(Block(*shape) for shape in shapes), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
    images = torch.randn((64, 3, 64, 64), device="cuda")
    labels = torch.randint(0, 10, (64,), device="cuda")
    return model, images, lambda out: functional.cross_entropy(out, labels)


def programs():
    # Before torch is loaded. Products by Triton's templates: those of cuBLAS call no assembler.
    os.environ["TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS"] = "TRITON"
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    import torch._inductor.config as inductor

    def step(build, mode):
        def make():
            torch.manual_seed(3)
            torch.use_deterministic_algorithms(True, warn_only=True)
            # Its backward pass is not the same twice.
            torch.backends.cuda.enable_cudnn_sdp(False)
            torch._dynamo.reset()
            if hasattr(inductor, "deterministic"):
                inductor.deterministic = mode == "default"
            model, inputs, loss = build()
            compiled = torch.compile(model, mode=mode)
            kept = {}

            def run():
                model.zero_grad(set_to_none=True)
                kept["loss"] = loss(compiled(inputs))
                kept["loss"].backward()
                torch.cuda.synchronize()

            def outputs():
                gradients = [parameter.grad.float().cpu().numpy() for parameter in model.parameters()]
                return [kept["loss"].detach().float().cpu().numpy(), *gradients]

            return run, outputs

        return make

    return {
        "llama_step": step(llama, "default"),
        "resnet_step": step(resnet, "default"),
        "llama_step_max_autotune": step(llama, "max-autotune-no-cudagraphs"),
        "resnet_step_max_autotune": step(resnet, "max-autotune-no-cudagraphs"),
    }
