//! The two notes of a cubin: which tool made it, and which virtual architecture it was made from.

use crate::bytes::{Cursor, Put, align_up};
use crate::error::Result;

/// The owner of NVIDIA's notes, without its final zero.
pub const NVIDIA_OWNER: &str = "NVIDIA Corp";
/// The type of the note in `.note.nv.cuinfo`.
pub const NOTE_CUINFO: u32 = 1000;
/// The type of the note in `.note.nv.tkinfo`.
pub const NOTE_TKINFO: u32 = 2000;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Who defines the note's meaning; written with a final zero.
    pub owner: String,
    /// The owner's number for this kind of note.
    pub kind: u32,
    /// What it says.
    pub content: NoteContent,
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteContent {
    /// Which tool made the file.
    Tool(ToolNote),
    /// Which virtual architecture the code was made from.
    Cuda(CudaNote),
    /// Anything else.
    Raw(Vec<u8>),
}

/// The content of `.note.nv.tkinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNote {
    /// Version of the note's layout; 2.
    pub version: u32,
    /// Name of the output file, where the tool was told one.
    pub object: String,
    /// The tool.
    pub name: String,
    /// Its version, in words.
    pub tool_version: String,
    /// The branch it was built from.
    pub branch: String,
    /// Its command line.
    pub arguments: String,
}

/// The content of `.note.nv.cuinfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaNote {
    /// Version of the note's layout; 2.
    pub version: u16,
    /// The virtual architecture: the `.target` of the PTX, 90 for sm_90 and sm_90a.
    pub virtual_sm: u16,
    /// The toolkit, ten times major plus minor: 130 for CUDA 13.0.
    pub toolkit: u16,
    /// Zero in everything seen.
    pub reserved: u16,
}

impl ToolNote {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let version = cursor.u32("a note").ok()?;
        let mut offsets = [0; 5];
        for offset in &mut offsets {
            *offset = cursor.u32("a note").ok()?;
        }
        let strings = cursor.take(cursor.left() as u64, "a note").ok()?;
        let text = |offset: u32| {
            let rest = strings.get(offset as usize..)?;
            let end = rest.iter().position(|byte| *byte == 0)?;
            Some(std::str::from_utf8(&rest[..end]).ok()?.to_owned())
        };
        let note = Self {
            version,
            object: text(offsets[0])?,
            name: text(offsets[1])?,
            tool_version: text(offsets[2])?,
            branch: text(offsets[3])?,
            arguments: text(offsets[4])?,
        };
        (note.encode() == bytes).then_some(note)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut strings = Vec::new();
        bytes.put_u32(self.version);
        for text in [
            &self.object,
            &self.name,
            &self.tool_version,
            &self.branch,
            &self.arguments,
        ] {
            bytes.put_u32(strings.len() as u32);
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
        }
        bytes.extend_from_slice(&strings);
        bytes.resize(align_up(bytes.len() as u64, 4) as usize, 0);
        bytes
    }
}

impl CudaNote {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let note = Self {
            version: cursor.u16("a note").ok()?,
            virtual_sm: cursor.u16("a note").ok()?,
            toolkit: cursor.u16("a note").ok()?,
            reserved: cursor.u16("a note").ok()?,
        };
        cursor.is_empty().then_some(note)
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u16(self.version);
        bytes.put_u16(self.virtual_sm);
        bytes.put_u16(self.toolkit);
        bytes.put_u16(self.reserved);
        bytes
    }
}

/// Reads the notes of a section.
pub(crate) fn read(mut cursor: Cursor<'_>) -> Result<Vec<Note>> {
    let mut notes = Vec::new();
    while !cursor.is_empty() {
        let owner_size = u64::from(cursor.u32("a note's header")?);
        let content_size = u64::from(cursor.u32("a note's header")?);
        let kind = cursor.u32("a note's header")?;
        let owner = cursor.take(align_up(owner_size, 4), "a note's owner")?;
        let owner = &owner[..owner_size as usize];
        let owner = owner.strip_suffix(&[0]).unwrap_or(owner);
        let content = cursor.take(align_up(content_size, 4), "a note's content")?;
        let content = &content[..content_size as usize];
        let decoded = match kind {
            NOTE_TKINFO => ToolNote::decode(content).map(NoteContent::Tool),
            NOTE_CUINFO => CudaNote::decode(content).map(NoteContent::Cuda),
            _ => None,
        };
        notes.push(Note {
            owner: String::from_utf8_lossy(owner).into_owned(),
            kind,
            content: decoded.unwrap_or_else(|| NoteContent::Raw(content.to_vec())),
        });
    }
    Ok(notes)
}

/// The bytes of a section of notes.
pub(crate) fn write(notes: &[Note]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for note in notes {
        let content = match &note.content {
            NoteContent::Tool(tool) => tool.encode(),
            NoteContent::Cuda(cuda) => cuda.encode(),
            NoteContent::Raw(raw) => raw.clone(),
        };
        bytes.put_u32(note.owner.len() as u32 + 1);
        bytes.put_u32(content.len() as u32);
        bytes.put_u32(note.kind);
        bytes.extend_from_slice(note.owner.as_bytes());
        bytes.push(0);
        bytes.resize(align_up(bytes.len() as u64, 4) as usize, 0);
        bytes.extend_from_slice(&content);
        bytes.resize(align_up(bytes.len() as u64, 4) as usize, 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notes_come_back_as_they_were_written() {
        let notes = vec![
            Note {
                owner: NVIDIA_OWNER.to_owned(),
                kind: NOTE_TKINFO,
                content: NoteContent::Tool(ToolNote {
                    version: 2,
                    object: String::new(),
                    name: "orias".to_owned(),
                    tool_version: "0.1.0".to_owned(),
                    branch: String::new(),
                    arguments: "-arch sm_90a".to_owned(),
                }),
            },
            Note {
                owner: NVIDIA_OWNER.to_owned(),
                kind: NOTE_CUINFO,
                content: NoteContent::Cuda(CudaNote {
                    version: 2,
                    virtual_sm: 90,
                    toolkit: 130,
                    reserved: 0,
                }),
            },
        ];
        let bytes = write(&notes);
        assert_eq!(read(Cursor::new(&bytes, 0)).expect("readable"), notes);
    }

    #[test]
    fn a_tool_note_whose_strings_lie_elsewhere_is_kept_as_bytes() {
        let note = Note {
            owner: NVIDIA_OWNER.to_owned(),
            kind: NOTE_TKINFO,
            content: NoteContent::Raw(vec![2, 0, 0, 0, 255, 255, 255, 255]),
        };
        let bytes = write(std::slice::from_ref(&note));
        assert_eq!(read(Cursor::new(&bytes, 0)).expect("readable"), [note]);
    }

    #[test]
    fn a_note_that_is_cut_off_is_an_error() {
        let error = read(Cursor::new(&[12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "file offset 0xc: a note's owner needs 12 bytes, 0 are left"
        );
    }
}
