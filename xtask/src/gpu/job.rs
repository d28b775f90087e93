//! One launch of one kernel: which cubin, which shape, which arguments; and what came of it.
//!
//! The form is that of the corpus's `manifest.json`, with the cubin's path added, so a manifest's test is a job.

use orias_random::Rng;
use serde_json::{Value, json};

/// How a buffer or scalar argument is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A device buffer with these first contents; the kernel gets its address.
    Buffer(Vec<u8>),
    /// A scalar passed by value, little-endian.
    Scalar(Vec<u8>),
}

/// A launch.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the launch is called in tables.
    pub name: String,
    /// Path of the cubin.
    pub cubin: String,
    /// The kernel's name in it.
    pub kernel: String,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub smem: u32,
    /// The arguments as the manifest states them; [`Job::arguments`] makes their bytes.
    pub args: Vec<Value>,
    /// How often the kernel runs: each run starts from the same buffers and must end with the same.
    pub runs: u32,
    /// Cubins to be timed in turns after that, and how many turns.
    pub rivals: Vec<String>,
    pub rounds: u32,
    /// Where the first run's buffers are written, as `KEEP.0`, `KEEP.1`, …; empty for nowhere.
    pub keep: String,
}

/// What a launch left behind.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran: the hash of each buffer, and for each round the microseconds of a launch of each rival.
    Ran {
        buffers: Vec<u64>,
        rounds: Vec<Vec<f64>>,
    },
    /// It did not: the driver's words, or `unstable: …` when two runs left different buffers.
    Failed(String),
}

fn triple(value: &Value, what: &str) -> Result<[u32; 3], String> {
    let bad = || format!("{what} is not a list of three numbers");
    let list = value
        .as_array()
        .filter(|list| list.len() == 3)
        .ok_or_else(bad)?;
    let mut out = [0; 3];
    for (slot, item) in out.iter_mut().zip(list) {
        *slot = item
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(bad)?;
    }
    Ok(out)
}

fn number(value: &Value, what: &str) -> Result<u64, String> {
    value
        .as_u64()
        .ok_or_else(|| format!("{what} is not a number"))
}

fn text(value: &Value, what: &str) -> Result<String, String> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{what} is not a string"))
}

fn list<'v>(value: &'v Value, what: &str) -> Result<&'v Vec<Value>, String> {
    value
        .as_array()
        .ok_or_else(|| format!("{what} is not a list"))
}

impl Job {
    /// Reads a manifest's test. `cubin` is where its code is.
    pub fn from_test(test: &Value, cubin: String) -> Result<Self, String> {
        Ok(Self {
            name: text(&test["name"], "name")?,
            cubin,
            kernel: text(&test["kernel"], "kernel")?,
            grid: triple(&test["grid"], "grid")?,
            block: triple(&test["block"], "block")?,
            smem: u32::try_from(number(&test["smem"], "smem")?)
                .map_err(|_| "smem is too large".to_owned())?,
            args: list(&test["args"], "args")?.clone(),
            runs: 1,
            rivals: Vec::new(),
            rounds: 0,
            keep: String::new(),
        })
    }

    /// The job as one line for a worker.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "cubin": self.cubin, "kernel": self.kernel, "grid": self.grid, "block": self.block,
            "smem": self.smem, "args": self.args, "runs": self.runs, "rivals": self.rivals,
            "rounds": self.rounds, "keep": self.keep,
        })
    }

    /// Reads [`Job::to_json`] back.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let mut job = Self::from_test(value, text(&value["cubin"], "cubin")?)?;
        job.runs = u32::try_from(number(&value["runs"], "runs")?)
            .map_err(|_| "runs is too large".to_owned())?;
        job.rounds = u32::try_from(number(&value["rounds"], "rounds")?)
            .map_err(|_| "rounds is too large".to_owned())?;
        job.rivals = list(&value["rivals"], "rivals")?
            .iter()
            .map(|rival| text(rival, "a rival"))
            .collect::<Result<_, _>>()?;
        job.keep = text(&value["keep"], "keep")?;
        Ok(job)
    }

    /// The bytes of every argument.
    pub fn arguments(&self) -> Result<Vec<Argument>, String> {
        self.args.iter().map(argument).collect()
    }
}

impl Outcome {
    /// The outcome as one line from a worker.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Ran { buffers, rounds } => json!({"buffers": buffers, "rounds": rounds}),
            Self::Failed(message) => json!({"failed": message}),
        }
    }

    /// Reads [`Outcome::to_json`] back.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        if let Some(message) = value["failed"].as_str() {
            return Ok(Self::Failed(message.to_owned()));
        }
        let buffers = list(&value["buffers"], "buffers")?;
        let time = |time: &Value| {
            time.as_f64()
                .ok_or("a time that is not a number".to_owned())
        };
        let round = |round| list(round, "a round")?.iter().map(time).collect();
        let rounds = list(&value["rounds"], "rounds")?;
        Ok(Self::Ran {
            buffers: buffers
                .iter()
                .map(|hash| number(hash, "a hash"))
                .collect::<Result<_, _>>()?,
            rounds: rounds.iter().map(round).collect::<Result<_, _>>()?,
        })
    }
}

/// A 64-bit FNV-1a hash: enough to tell whether two buffers are equal in a test.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A stream of random words that is the same everywhere.
pub struct Words(Rng);

impl Words {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// The next word.
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in [-1, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The size in bytes of an element type of the manifest.
fn size_of(element: &str) -> Result<usize, String> {
    match element {
        "i8" | "u8" => Ok(1),
        "i16" | "u16" | "f16" | "bf16" => Ok(2),
        "i32" | "u32" | "f32" => Ok(4),
        "i64" | "u64" | "f64" => Ok(8),
        other => Err(format!("no element type is called '{other}'")),
    }
}

/// `value` as an element of the given type, little-endian.
fn element_from_f64(element: &str, value: f64) -> Result<Vec<u8>, String> {
    Ok(match element {
        "f64" => value.to_le_bytes().to_vec(),
        "f32" => (value as f32).to_le_bytes().to_vec(),
        "bf16" => {
            let bits = (value as f32).to_bits();
            let rounded = bits + 0x7fff + ((bits >> 16) & 1);
            ((rounded >> 16) as u16).to_le_bytes().to_vec()
        }
        "f16" => half_bits(value as f32).to_le_bytes().to_vec(),
        other => return Err(format!("no real numbers of type '{other}'")),
    })
}

/// `value` of magnitude at most 1 as an IEEE half, rounded towards zero; tiny values become zero.
fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    if exponent <= 0 {
        return sign;
    }
    sign | (exponent as u16) << 10 | ((bits >> 13) & 0x3ff) as u16
}

/// The bytes of one argument of a manifest.
fn argument(value: &Value) -> Result<Argument, String> {
    let object = value.as_object().ok_or("an argument is not an object")?;
    let get = |key: &str| object.get(key);
    for (key, bytes) in [("i32", 4), ("u32", 4), ("i64", 8), ("u64", 8)] {
        if let Some(number) = get(key) {
            let bits = number
                .as_i64()
                .map(i64::cast_unsigned)
                .or_else(|| number.as_u64())
                .ok_or_else(|| format!("{key} is not an integer"))?;
            return Ok(Argument::Scalar(bits.to_le_bytes()[..bytes].to_vec()));
        }
    }
    for key in ["f32", "f64"] {
        if let Some(number) = get(key) {
            let real = number
                .as_f64()
                .ok_or_else(|| format!("{key} is not a number"))?;
            return element_from_f64(key, real).map(Argument::Scalar);
        }
    }
    for (key, byte) in [("zero", 0x00), ("poison", 0xa5)] {
        if let Some(length) = get(key) {
            let length = number(length, key)? as usize;
            return Ok(Argument::Buffer(vec![byte; length]));
        }
    }
    if let Some(path) = get("file") {
        let path = text(path, "file")?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        return Ok(Argument::Buffer(bytes));
    }
    let n = number(get("n").ok_or("a buffer without n")?, "n")? as usize;
    if let Some(element) = get("iota") {
        let size = size_of(element.as_str().ok_or("iota names no type")?)?;
        let bytes = (0..n as u64)
            .flat_map(|i| i.to_le_bytes()[..size].to_vec())
            .collect();
        return Ok(Argument::Buffer(bytes));
    }
    let mut words = Words::new(number(
        get("seed").ok_or("a random buffer without seed")?,
        "seed",
    )?);
    let mut bytes = Vec::new();
    if let Some(element) = get("rand") {
        let size = size_of(element.as_str().ok_or("rand names no type")?)?;
        for _ in 0..n {
            bytes.extend_from_slice(&words.next().to_le_bytes()[..size]);
        }
    } else if let Some(element) = get("uniform") {
        let element = element.as_str().ok_or("uniform names no type")?;
        for _ in 0..n {
            bytes.extend(element_from_f64(element, words.unit())?);
        }
    } else if let Some(element) = get("small") {
        let size = size_of(element.as_str().ok_or("small names no type")?)?;
        let max = number(get("max").ok_or("small without max")?, "max")?.max(1);
        for _ in 0..n {
            bytes.extend_from_slice(&(words.next() % max).to_le_bytes()[..size]);
        }
    } else {
        return Err(format!("no argument is made from {value}"));
    }
    Ok(Argument::Buffer(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_the_way_back() {
        let outcomes = [
            Outcome::Ran {
                buffers: vec![1, u64::MAX],
                rounds: vec![vec![1.5, 2.0], vec![1.25, 2.5]],
            },
            Outcome::Failed("unstable".to_owned()),
        ];
        for outcome in outcomes {
            assert_eq!(Outcome::from_json(&outcome.to_json()), Ok(outcome));
        }
    }

    #[test]
    fn a_job_survives_the_way_to_a_worker() {
        let test = json!({"name": "a", "kernel": "k", "grid": [1, 2, 3], "block": [32, 1, 1], "smem": 48,
            "args": [{"i32": -1}, {"rand": "u16", "n": 3, "seed": 7}]});
        let mut job = Job::from_test(&test, "a.cubin".to_owned()).unwrap();
        job.rivals = vec!["b.cubin".to_owned()];
        job.rounds = 3;
        let back = Job::from_json(&job.to_json()).unwrap();
        assert_eq!(back.to_json(), job.to_json());
        assert_eq!(
            back.arguments().unwrap()[0],
            Argument::Scalar(vec![0xff; 4])
        );
        assert!(
            matches!(&back.arguments().unwrap()[1], Argument::Buffer(bytes) if bytes.len() == 6)
        );
    }

    #[test]
    fn real_numbers_of_every_format_stay_in_range() {
        let of = |element: &str, value: f64| element_from_f64(element, value).unwrap();
        assert_eq!(of("f16", -1.0), 0xbc00u16.to_le_bytes());
        assert_eq!(of("f16", 0.5), 0x3800u16.to_le_bytes());
        assert_eq!(of("bf16", 1.0), 0x3f80u16.to_le_bytes());
        assert_eq!(of("f32", 0.25), 0.25f32.to_le_bytes());
    }

    #[test]
    fn an_argument_that_is_not_understood_is_refused() {
        assert!(argument(&json!({"i33": 1})).is_err());
        assert!(argument(&json!({"rand": "f12", "n": 1, "seed": 1})).is_err());
    }
}
