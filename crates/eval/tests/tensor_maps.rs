//! Tensor maps that CUDA's driver encoded (`bench/tensor_maps.py`, one in some twenty of them): taken apart, and put together again.

use orias_eval::tensor::{DIMENSIONS, Element, Pixels, Swizzle, TensorMap};

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let parse = |number: &str| number.parse().ok();
    text.split(',').filter_map(parse).collect()
}

fn spread<T: Copy, const N: usize>(list: &[T], rest: T) -> [T; N] {
    std::array::from_fn(|at| list.get(at).copied().unwrap_or(rest))
}

#[test]
fn recorded_maps() {
    let mut seen = 0;
    for line in include_str!("tensor_maps.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let (call, words) = line.split_once(" = ").unwrap();
        let call: Vec<&str> = call.split(' ').collect();
        let mut recorded = [0; 128];
        for (part, word) in recorded.chunks_mut(4).zip(words.split(' ')) {
            part.copy_from_slice(&u32::from_str_radix(word, 16).unwrap().to_le_bytes());
        }
        let number: u32 = call[1].parse().unwrap();
        let rank: usize = call[2].parse().unwrap();
        let element = Element::from_driver(number).unwrap();
        let address = u64::from_str_radix(&call[3][2..], 16).unwrap();
        let sizes: Vec<u64> = numbers(call[4]);
        let mut strides = vec![element.bytes()];
        strides.extend(numbers::<u64>(call[5]));
        let tail = &call[call.len() - 4..];
        let steps: Vec<u64> = numbers(call[call.len() - 5]);
        let pixels = (call[0] == "im2col").then(|| Pixels {
            lower: spread(&numbers(call[6]), 0),
            upper: spread(&numbers(call[7]), 0),
            channels: call[8].parse().unwrap(),
            count: call[9].parse().unwrap(),
        });
        let box_sizes: [u64; DIMENSIONS] = match pixels {
            None => spread(&numbers(call[6]), 1),
            Some(pixels) => spread(&[pixels.channels], 1),
        };
        let swizzles = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];
        let map = TensorMap {
            address,
            rank,
            element,
            interleave: tail[0].parse().unwrap(),
            swizzle: swizzles[tail[1].parse::<usize>().unwrap()],
            fills_with_nan: tail[3] == "1",
            sizes: spread(&sizes, 1),
            strides: spread(&strides, element.bytes()),
            steps: spread(&steps, 1),
            box_sizes,
            pixels,
        };
        let encoded = map.encode(tail[2].parse().unwrap());
        assert_eq!(encoded, recorded, "{line}");
        let mut decoded = TensorMap::decode(&recorded).unwrap();
        // What the engine does not look at.
        decoded.steps[0] = map.steps[0];
        if pixels.is_some() {
            decoded.box_sizes = map.box_sizes;
        }
        assert_eq!(decoded, map, "{line}");
        seen += 1;
    }
    assert!(seen > 200, "only {seen} maps");
}
