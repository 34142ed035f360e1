#!/usr/bin/env bash
# Boots systemd on a copy of this machine's root, in namespaces of its own, and takes the
# steps there: boot.sh FOLDER, with signet.deb and steps.sh in it. Nothing outside changes:
# what is written goes to a file system in memory.
set -euo pipefail
folder=$1
mount --make-rprivate /
space=$folder/space
mkdir -p "$space"
mount -t tmpfs none "$space"
mkdir "$space"/{upper,work,root}
root=$space/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$space/upper,workdir=$space/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
mount -t tmpfs run "$root/run"
mount -t tmpfs tmp "$root/tmp"
# Devices of its own, so that those of the machine stay as they are.
mount -t tmpfs dev "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/full" c 1 7
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/tty" c 5 0
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ip link set lo up

# What would reach the kernel that all share, and what is of no use here.
for unit in systemd-sysctl.service systemd-modules-load.service systemd-binfmt.service \
    proc-sys-fs-binfmt_misc.automount systemd-remount-fs.service systemd-udevd.service \
    systemd-udev-trigger.service systemd-tmpfiles-setup-dev.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
rm -rf "$root/var/log/journal"
# Machines that are containers forbid packages to start their services.
rm -f "$root/usr/sbin/policy-rc.d"

mkdir "$root/run/out"
mount --bind "$folder" "$root/run/out"
cat >"$root/run/first.service" <<'UNIT'
[Unit]
DefaultDependencies=no
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'bash /run/out/steps.sh >/run/out/steps.log 2>&1; echo "ended with $?" >>/run/out/steps.log'
ExecStopPost=/bin/systemctl exit --no-block
UNIT
mkdir -p "$root/etc/systemd/system/basic.target.wants"
mv "$root/run/first.service" "$root/etc/systemd/system/signet-test.service"
ln -s ../signet-test.service "$root/etc/systemd/system/basic.target.wants/"
exec env container=unshare chroot "$root" /lib/systemd/systemd --system --unit=basic.target
