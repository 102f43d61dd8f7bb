/* windows_errors.h - a storage's errors are those of its system: on Windows the counterparts of the ones that tests
 * name. After dcp.h. */
#if defined(_WIN32) && !defined(DCP_TESTS_WINDOWS_ERRORS_H)
#define DCP_TESTS_WINDOWS_ERRORS_H
#undef EIO
#undef EINTR
#undef EBUSY
#undef EAGAIN
#undef EACCES
#undef ENOSPC
#undef EROFS
#undef EDQUOT
#undef ESTALE
#undef ETIMEDOUT
#undef ENOENT
#undef ENOTDIR
#define EIO ERROR_IO_DEVICE
#define EINTR ERROR_BUSY
#define EBUSY ERROR_BUSY
#define EAGAIN ERROR_RETRY
#define EACCES ERROR_ACCESS_DENIED
#define ENOSPC ERROR_DISK_FULL
#define EROFS ERROR_WRITE_PROTECT
#define EDQUOT ERROR_DISK_QUOTA_EXCEEDED
#define ESTALE ERROR_NETNAME_DELETED
#define ETIMEDOUT ERROR_SEM_TIMEOUT
#define ENOENT ERROR_FILE_NOT_FOUND
#define ENOTDIR ERROR_DIRECTORY
#endif
