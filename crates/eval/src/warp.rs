//! What lanes of a warp exchange: which lane a shuffle reads, which lanes hold equal values.

/// How a shuffle names the lane it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// So many lanes below.
    Up,
    /// So many lanes above.
    Down,
    /// The lane whose number differs in these bits.
    Butterfly,
    /// The lane of that number within the segment.
    Index,
}

/// The lane that `lane` reads, and whether it lies within its segment; beyond it a lane reads itself.
///
/// `control` holds the clamp value in bits 0 to 4 and the mask that cuts the warp into segments in bits 8 to 12.
pub const fn shuffle_source(mode: Shuffle, lane: u32, operand: u32, control: u32) -> (u32, bool) {
    let offset = operand & 0x1f;
    let clamp = control & 0x1f;
    let segment = control >> 8 & 0x1f;
    let highest = lane & segment | clamp & !segment;
    let lowest = lane & segment;
    let (source, valid) = match mode {
        Shuffle::Up => {
            let source = lane as i32 - offset as i32;
            (source, source >= highest as i32)
        }
        Shuffle::Down => {
            let source = lane + offset;
            (source as i32, source <= highest)
        }
        Shuffle::Butterfly => {
            let source = lane ^ offset;
            (source as i32, source <= highest)
        }
        Shuffle::Index => {
            let source = lowest | offset & !segment;
            (source as i32, source <= highest)
        }
    };
    if valid {
        (source as u32 & 0x1f, true)
    } else {
        (lane, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_within_their_segment() {
        assert_eq!(shuffle_source(Shuffle::Up, 0, 1, 0), (0, false));
        assert_eq!(shuffle_source(Shuffle::Up, 5, 1, 0), (4, true));
        assert_eq!(shuffle_source(Shuffle::Down, 31, 1, 31), (31, false));
        assert_eq!(shuffle_source(Shuffle::Butterfly, 3, 16, 31), (19, true));
        assert_eq!(shuffle_source(Shuffle::Index, 20, 3, 31), (3, true));
        // Segments of eight lanes: the mask is 0b11000.
        assert_eq!(shuffle_source(Shuffle::Index, 20, 3, 0x1807), (19, true));
        assert_eq!(shuffle_source(Shuffle::Down, 7, 1, 0x1807), (7, false));
        assert_eq!(shuffle_source(Shuffle::Up, 8, 1, 0x1800), (8, false));
    }
}
