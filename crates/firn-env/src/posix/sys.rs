//! The few system calls that the standard library does not offer, each behind a safe function.
//!
//! File descriptors come in borrowed from a live [`File`], so they are valid for the call; results go out as
//! [`io::Result`]. This module, [`super::mmap`] and [`crate::pages`] are the only ones of this crate with `unsafe`.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::file::AccessPattern;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn to_offset(value: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Reserves disk blocks for a range; with `keep_size` the visible size stays.
pub(super) fn allocate(file: &File, offset: u64, bytes: u64, keep_size: bool) -> io::Result<()> {
    let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
    let (offset, bytes) = (to_offset(offset)?, to_offset(bytes)?);
    loop {
        // SAFETY: the descriptor is open for the duration of the borrow; no memory is passed.
        let result = check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) });
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Frees reserved blocks behind the visible end of the file, which a truncation to the same size may leave.
pub(super) fn release_behind_end(file: &File, size: u64, reserved: u64) -> io::Result<()> {
    if reserved <= size {
        return Ok(());
    }
    let mode = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
    let (offset, bytes) = (to_offset(size)?, to_offset(reserved - size)?);
    // SAFETY: the descriptor is open for the duration of the borrow; no memory is passed.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) })
}

/// Tells the system how a range will be read; 0 bytes mean to the end. Failures are ignored: it is a hint.
pub(super) fn advise(file: &File, offset: u64, bytes: u64, pattern: AccessPattern) {
    let advice = match pattern {
        AccessPattern::Normal => libc::POSIX_FADV_NORMAL,
        AccessPattern::Random => libc::POSIX_FADV_RANDOM,
        AccessPattern::Sequential => libc::POSIX_FADV_SEQUENTIAL,
        AccessPattern::WillNeed => libc::POSIX_FADV_WILLNEED,
        AccessPattern::DontNeed => libc::POSIX_FADV_DONTNEED,
    };
    if let (Ok(offset), Ok(bytes)) = (to_offset(offset), to_offset(bytes)) {
        // SAFETY: the descriptor is open for the duration of the borrow; no memory is passed.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, advice) };
    }
}

/// Loads a range into the page cache in the background.
pub(super) fn readahead(file: &File, offset: u64, bytes: usize) -> io::Result<()> {
    let offset = to_offset(offset)?;
    // SAFETY: the descriptor is open for the duration of the borrow; no memory is passed.
    let result = unsafe { libc::readahead(file.as_raw_fd(), offset, bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts writing back a range; with `wait_before` first waits for write-backs that already run there.
pub(super) fn sync_range(file: &File, offset: u64, bytes: u64, wait_before: bool) -> io::Result<()> {
    let before = if wait_before { libc::SYNC_FILE_RANGE_WAIT_BEFORE } else { 0 };
    let (offset, bytes) = (to_offset(offset)?, to_offset(bytes)?);
    // SAFETY: the descriptor is open for the duration of the borrow; no memory is passed.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, before | libc::SYNC_FILE_RANGE_WRITE) })
}

/// Takes (or gives back) an exclusive record lock on the whole file without waiting.
pub(super) fn lock_whole_file(file: &File, lock: bool) -> io::Result<()> {
    let kind = if lock { libc::F_WRLCK } else { libc::F_UNLCK };
    // SAFETY: `flock` is plain data, for which all-zero bytes are a valid value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open for the duration of the borrow and `request` lives across the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const request) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What direct reads of a file demand of offsets and lengths, and of memory, in bytes; `None` where the system does not
/// tell, as Linux before 6.1.
#[cfg(all(target_os = "linux", any(target_env = "gnu", target_env = "musl")))]
pub(super) fn direct_read_alignment(file: &File) -> Option<(usize, usize)> {
    // SAFETY: `statx` is plain data, for which all-zero bytes are a valid value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let (flags, wanted) = (libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    // SAFETY: the descriptor is open for the duration of the borrow, the path is NUL-terminated and `status` is writable;
    // both live across the call.
    check(unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, wanted, &raw mut status) }).ok()?;
    let tells = status.stx_mask & libc::STATX_DIOALIGN != 0;
    let (offset, memory) = (status.stx_dio_offset_align as usize, status.stx_dio_mem_align as usize);
    (tells && offset.is_power_of_two() && memory.is_power_of_two()).then_some((offset, memory))
}

#[cfg(not(all(target_os = "linux", any(target_env = "gnu", target_env = "musl"))))]
pub(super) fn direct_read_alignment(_: &File) -> Option<(usize, usize)> {
    None
}

/// Bytes an unprivileged user may still write on the file system of `path`.
pub(super) fn free_space(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `statvfs` is plain data, for which all-zero bytes are a valid value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` is NUL-terminated and `stat` is writable; both live across the call.
    check(unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) })?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether a mapping of blocks that were reserved can be written to whatever happens to the disk. File systems that may
/// write a page to a new place ask for space again when the page is touched, and answer a full disk with `SIGBUS`: those
/// that copy on write, XFS where files may share blocks (`cp` shares them unasked), and any that is not known here.
#[cfg(target_os = "linux")]
pub(super) fn reserved_blocks_stay(file: &File) -> bool {
    const XFS_MAGIC: u32 = 0x5846_5342;
    // SAFETY: `statfs` is plain data, for which all-zero bytes are a valid value.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open for the duration of the borrow; `stat` is writable and lives across the call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) } != 0 {
        return false;
    }
    // The field's type differs from one C library to the next; the numbers have 32 bits.
    match stat.f_type as u32 {
        magic if magic == libc::EXT4_SUPER_MAGIC as u32 || magic == libc::TMPFS_MAGIC as u32 => true,
        XFS_MAGIC => !xfs_shares_blocks(file).unwrap_or(true),
        _ => false,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reserved_blocks_stay(_: &File) -> bool {
    false
}

/// Whether files of this XFS may share blocks.
#[cfg(target_os = "linux")]
fn xfs_shares_blocks(file: &File) -> io::Result<bool> {
    /// `XFS_IOC_FSGEOMETRY` in the form that every version of the kernel knows: it fills 112 bytes.
    const GEOMETRY: u64 = 0x8070_587c;
    const GEOMETRY_WORDS: usize = 112 / size_of::<u64>();
    /// The flags are the 32-bit field at byte 92.
    const FLAGS_AT: usize = 92;
    const FLAG_REFLINK: u32 = 1 << 20;
    let mut geometry = [0_u64; GEOMETRY_WORDS];
    // SAFETY: the descriptor is open for the duration of the borrow, and the request writes as many bytes as `geometry`
    // has, which lives across the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), GEOMETRY as _, geometry.as_mut_ptr()) })?;
    let word = geometry.get(FLAGS_AT / 8).copied().unwrap_or(u64::MAX).to_ne_bytes();
    let [_, _, _, _, a, b, c, d] = word;
    Ok(u32::from_ne_bytes([a, b, c, d]) & FLAG_REFLINK != 0)
}

/// Processor time of the calling thread, in nanoseconds.
pub(super) fn thread_cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live local of the right type.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return 0;
    }
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The calling thread's id in the operating system.
pub(super) fn thread_id() -> u64 {
    // SAFETY: takes no arguments and cannot fail.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u64::try_from(id).unwrap_or_default()
}

/// Fills `bytes` from the system's random source; false when there is none.
pub(super) fn fill_random(bytes: &mut [u8]) -> bool {
    // SAFETY: pointer and length describe the writable slice `bytes`.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    usize::try_from(got) == Ok(bytes.len())
}

/// How many files the process may have open.
pub(super) fn open_file_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and lives across the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }).ok()?;
    Some(limit.rlim_cur)
}

/// The machine's name.
pub(super) fn host_name() -> Option<String> {
    let mut name = [0u8; 256];
    // SAFETY: pointer and length describe the writable array `name`, less its last byte, which stays NUL.
    check(unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) }).ok()?;
    let end = name.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(name.get(..end)?).into_owned())
}

/// A calendar date and time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CivilTime {
    /// Year, such as 2026.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
    /// Hour, 0 to 23.
    pub hour: u32,
    /// Minute, 0 to 59.
    pub minute: u32,
    /// Second, 0 to 60.
    pub second: u32,
}

/// Seconds since 1970 as local time.
pub(super) fn local_time(seconds: u64) -> CivilTime {
    let time = libc::time_t::try_from(seconds).unwrap_or_default();
    // SAFETY: `tm` is plain data (its one pointer may be null), for which all-zero bytes are a valid value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers refer to live locals of the right types.
    unsafe { libc::localtime_r(&raw const time, &raw mut tm) };
    let field = |value: libc::c_int| u32::try_from(value).unwrap_or_default();
    CivilTime {
        year: tm.tm_year + 1900,
        month: field(tm.tm_mon) + 1,
        day: field(tm.tm_mday),
        hour: field(tm.tm_hour),
        minute: field(tm.tm_min),
        second: field(tm.tm_sec),
    }
}
