/* Lets the disk fail under a test's child process, while the file that HIVE_FAULT names exists:
   its first byte says how. 'w': no room is left; 's': what was written does not reach the disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static int fault(char kind)
{
    char found = 0;
    const char *path = getenv("HIVE_FAULT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    ssize_t (*really)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    if (really(file, &found, 1) != 1)
        found = 0;
    close(file);
    return found == kind;
}

#define FAIL(kind, number) if (fault(kind)) { errno = number; return -1; }

int fsync(int file)
{
    FAIL('s', EIO)
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file)
{
    FAIL('s', EIO)
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    FAIL('w', ENOSPC)
    return ((ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(
        file, data, size, at);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    FAIL('w', ENOSPC)
    return ((ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(
        file, data, size, at);
}
