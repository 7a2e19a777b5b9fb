# Gives a container its own view of the file system and becomes its process. Runs as root in a private mount namespace.
#
#   sandbox.sh ROOT ro|rw USER GROUP GROUPS|- [SOURCE TARGET ro|rw]… -- PROGRAM ARGUMENT…
#
# ROOT is an empty folder that the view is built in. Of this machine a container sees the system's programs and
# libraries, /proc and /dev, as it would see those of its image; nothing else, so no home folder and no build tree.

set -eu

root=$1 root_mode=$2 user=$3 group=$4 groups=$5
shift 5

# place SOURCE TARGET ro|rw
place() {
    if [ -d "$1" ]; then
        mkdir -p "$root$2"
    else
        mkdir -p "$root$(dirname "$2")"
        : >"$root$2"
    fi
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
}

mount -t tmpfs -o mode=0755 tmpfs "$root"
for path in /bin /sbin /lib /lib32 /lib64 /libx32 /usr; do
    if [ -L "$path" ]; then
        cp -P "$path" "$root$path"
    elif [ -d "$path" ]; then
        place "$path" "$path" ro
    fi
done
for path in /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache /etc/ssl; do
    [ ! -e "$path" ] || place "$path" "$path" ro
done
mkdir -m 1777 "$root/tmp"
mkdir "$root/proc" "$root/dev"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"

while [ "$1" != -- ]; do
    place "$1" "$2" "$3"
    shift 3
done
shift

[ "$root_mode" = rw ] || mount -o remount,ro "$root"

if [ "$groups" = - ]; then
    set -- --clear-groups -- "$@"
else
    set -- --groups "$groups" -- "$@"
fi

exec chroot "$root" setpriv --reuid "$user" --regid "$group" --no-new-privs --bounding-set -all --inh-caps -all \
    "$@"
