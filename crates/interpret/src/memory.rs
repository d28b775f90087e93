//! Memory of one thread: bytes by space and address; what was never written is zero.

use orias_ori::operation::Space;
use rustc_hash::FxHashMap;

/// Bytes by space and address. Generic addresses are global ones.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    bytes: FxHashMap<(u8, u64), u8>,
}

fn room(space: Space) -> u8 {
    match space {
        Space::Generic | Space::Global => 0,
        Space::SharedCluster => Space::Shared as u8,
        other => other as u8,
    }
}

impl Memory {
    /// Up to sixteen bytes.
    pub fn load(&self, space: Space, address: u64, bytes: usize) -> u128 {
        let mut bits = 0;
        for index in (0..bytes as u64).rev() {
            let place = (room(space), address.wrapping_add(index));
            let byte = self.bytes.get(&place).copied().unwrap_or(0);
            bits = bits << 8 | u128::from(byte);
        }
        bits
    }

    /// Writes up to sixteen bytes.
    pub fn store(&mut self, space: Space, address: u64, bits: u128, bytes: usize) {
        for index in 0..bytes as u64 {
            let place = (room(space), address.wrapping_add(index));
            self.bytes.insert(place, (bits >> (8 * index)) as u8);
        }
    }
}
