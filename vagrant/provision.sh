#!/usr/bin/env bash
# Sets the testbed up on this machine: system packages, a virtual environment, the package itself. Also provisions the virtual machine.
# Safe to repeat (a set-up that is complete costs a fraction of a second and no network), to interrupt, and to run twice at once.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: vagrant/provision.sh [--extras NAME,...] [--programs NAME,...] [--vm]
  --extras    also the package's extras: test, lint, bench, mpi, docs, ... (all that a run can need is always installed)
  --programs  also these programs of the system: chromium, shellcheck, ...; wireguard-go,wg for --encrypt; ffmpeg for tunnel's video
  --vm        inside the virtual machine: kernel modules and limits that suit emulation, `testbed` on every user's PATH
environment:
  TESTBED_VENV             folder of the virtual environment (default: .venv in the project)
  TESTBED_PYTHON           Python to build it with (default: python3, or the newest python3.x found)
  TESTBED_SYSTEM_PACKAGES  "no": never install system packages, only say which are missing
exit codes: 0 set up; 2 bad argument; 3 the machine lacks something (the line says what)
TEXT
}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$2"
    exit "$1"
}

extras=base programs='' vm=no
while [ $# -gt 0 ]; do
    case $1 in
        --extras | --programs)
            [ $# -gt 1 ] || fail 2 "$1 needs a list of names, see --help"
            [[ $2 =~ ^[a-z0-9,.+-]+$ ]] || fail 2 "$1 '$2' is not a list of names such as test,lint"
            if [ "$1" = --extras ]; then extras=base,$2; else programs=$2; fi
            shift
            ;;
        --vm) vm=yes ;;
        -h | --help) usage && exit 0 ;;
        *) fail 2 "unknown argument '$1', see --help" ;;
    esac
    shift
done
IFS=, read -ra extra_names <<<"$extras"
IFS=, read -ra program_names <<<"$programs"

# An ordinary user's PATH lacks the folders where Open vSwitch, tc and nft live.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${TESTBED_VENV:-$root/.venv}
[[ $venv = /* ]] || venv=$PWD/$venv
unfinished=$venv/.testbed-unfinished

# --- what there is ---------------------------------------------------------------------------------------------------

# program:package, as Debian 12, Debian 13 and Ubuntu 24.04 name them alike
needed=(ovs-vswitchd:openvswitch-switch ovsdb-tool:openvswitch-common mnexec:mininet ifconfig:net-tools ip:iproute2 tc:iproute2 pasta:passt
    nft:nftables tcpdump:tcpdump ethtool:ethtool iperf:iperf iperf3:iperf3 wget:wget ping:iputils-ping sysctl:procps modprobe:kmod
    unshare:util-linux nsenter:util-linux setpriv:util-linux mount:mount losetup:mount mkfs.ext4:e2fsprogs gcc:gcc)

missing_packages() {
    local pair name
    for pair in "${needed[@]}"; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
    done
    compgen -G '/usr/lib*/libisal.so.2' >/dev/null || compgen -G '/usr/lib/*/libisal.so.2' >/dev/null ||
        compgen -G '/usr/local/lib/libisal.so.2' >/dev/null || echo libisal2
    [ -e /usr/include/stdlib.h ] || echo libc6-dev
    for name in "${program_names[@]}"; do
        command -v "$name" >/dev/null && continue
        # Ubuntu's chromium package is only a pointer to a snap, which containers and bare machines cannot run
        if [ "$name" = chromium ] && grep -qs '^ID=ubuntu' /etc/os-release; then continue; fi
        if [ "$name" = wg ]; then name=wireguard-tools; fi
        if [ "$name" = gcc ]; then echo libc6-dev; fi
        echo "$name"
    done
    # a virtual environment is made once, so its maker is looked for only then
    if [ -x "$venv/bin/python" ]; then
        environment_is_complete || headers_package "$venv/bin/python"
        return
    fi
    if ! python=$(find_python); then
        # a minimal Debian has no Python; one that comes with another package would come without venv
        [ -n "${TESTBED_PYTHON:-}" ] || printf '%s\n' python3-venv python3-dev
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
    else
        headers_package "$python"
    fi
}

# The package of the headers with which C modules of this Python are compiled, if they are missing.
headers_package() {
    "$1" -c 'import os, sys, sysconfig
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")): print("python%d.%d-dev" % sys.version_info[:2])'
}

find_python() {
    local candidate
    for candidate in ${TESTBED_PYTHON:+"$TESTBED_PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
        [ "$candidate" != "${TESTBED_PYTHON:-}" ] || return 1
    done
    return 1
}

fingerprint() {
    { cat "$root/pyproject.toml" "$root/setup.py" "$root"/fec/protocol/*.c "$root"/plugins/*/pyproject.toml "$root/constraints.txt" "${BASH_SOURCE[0]}" && printf '%s\n' "$root" "$venv"; } | sha256sum
}

environment_is_complete() {
    local expected name
    [ -x "$venv/bin/python" ] && [ ! -e "$unfinished" ] || return 1
    expected=$(fingerprint)
    for name in "${extra_names[@]}"; do
        [ "$(cat "$venv/.testbed-$name" 2>/dev/null)" = "$expected" ] || return 1
    done
}

modules='openvswitch sch_netem sch_tbf sch_htb nf_tables tun'
# an ordinary user's switches and senders cannot raise these themselves
socket_limits='net.core.wmem_default=4194304 net.core.wmem_max=16777216 net.core.rmem_max=33554432'
# senders ask for this priority; an ordinary user gets it only where a limit allows it
priority_limit="$(id -un) - nice -10"
virtual_machine_is_ready() {
    [ "$(readlink /usr/local/bin/testbed)" = "$venv/bin/testbed" ] && grep -qsx "TESTBED_VENV=$venv" /etc/environment &&
        [ "$(cat /etc/modules-load.d/testbed.conf 2>/dev/null)" = "${modules// /$'\n'}" ] &&
        [ "$(cat /etc/sysctl.d/60-testbed.conf 2>/dev/null)" = "${socket_limits// /$'\n'}" ] &&
        [ "$(cat /etc/security/limits.d/testbed.conf 2>/dev/null)" = "$priority_limit" ]
}

# --- what is done about it -------------------------------------------------------------------------------------------

can_become_root() {
    [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Hundreds of lines, of interest only when it fails; a password is asked for on the terminal itself. Services that a package starts
# live on, so they must not inherit the lock.
apt() {
    local output
    output=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" 2>&1 </dev/null 9<&-) ||
        { printf '%s\n' "$output" >&2 && return 1; }
}

install_packages() {
    local packages=("$@") package
    say "installing system packages (a minute or two): ${packages[*]}"
    apt update || say "the package lists could not be renewed; trying those at hand"
    apt install --no-install-recommends "${packages[@]}" && return
    # one that this release does not know must not keep the others away
    for package in "${packages[@]}"; do
        apt install --no-install-recommends "$package" || say "could not install $package"
    done
}

# What is lost without these packages: a program of --programs costs only what needs it.
lost_without() {
    local package
    [[ " $* " =~ ^(' '(gcc|libc6-dev|python[0-9.]*-dev))+' '$ ]] && { echo 'the packets of streams are handled more slowly'; return; }
    for package in "$@"; do
        [[ ,$programs,wireguard-tools, = *,$package,* ]] || { echo 'without Open vSwitch and mininet only the simulated fabric works'; return; }
    done
    echo 'tests that need them are skipped'
}

provide_packages() {
    local packages reason
    mapfile -t packages < <(missing_packages | sort -u)
    [ ${#packages[@]} -gt 0 ] || return 0
    if [ "${TESTBED_SYSTEM_PACKAGES:-}" = no ]; then
        reason='TESTBED_SYSTEM_PACKAGES=no'
    elif ! command -v apt-get >/dev/null; then
        reason='no apt-get here (names are those of Debian 12)'
    elif ! can_become_root; then
        reason='neither root nor sudo here: ask an administrator to apt-get install them'
    else
        install_packages "${packages[@]}"
        mapfile -t packages < <(missing_packages | sort -u)
        [ ${#packages[@]} -gt 0 ] || return 0
        reason='installation failed'
    fi
    say "going on without system packages: ${packages[*]} ($reason); $(lost_without "${packages[@]}")"
}

# Only an empty folder or an earlier environment is ever cleared.
create_environment() {
    local python
    python=$(find_python) || fail 3 "Python 3.11 or newer is needed (found: $(python3 --version 2>&1 || true)); install one and name it in TESTBED_PYTHON"
    [ -e "$venv/pyvenv.cfg" ] || [ -z "$(ls -A "$venv")" ] || fail 2 "$venv is neither empty nor a virtual environment; name another folder in TESTBED_VENV"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail 3 "$python cannot make a virtual environment: install its venv package (Debian: python3-venv)"
    say "creating $venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv" || fail 3 "$python -m venv $venv failed"
}

provide_environment() {
    local names=all${extras#base} name packages=()
    environment_is_complete && return
    if [ -e "$unfinished" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then create_environment; fi
    : >"$unfinished" # outlives an interruption: a half-copied package looks installed, so the next run starts anew
    say "installing Python packages into $venv (a minute or two)"
    packages=(-e "${root}[$names]")
    if [[ ,$extras, = *,test,* ]]; then for name in "$root"/plugins/*/pyproject.toml; do packages+=(-e "${name%/*}"); done; fi
    # the pins hold for what builds the packages as well; the second variable is that of pip 25.3 and newer
    export PIP_CONSTRAINT=$root/constraints.txt PIP_BUILD_CONSTRAINT=$root/constraints.txt
    if ! "$venv/bin/python" -m pip install -qq --disable-pip-version-check -c "$root/constraints.txt" "${packages[@]}" >&2; then
        rm -f "$unfinished" # what fails, other than by interruption, fails before anything is copied: no index, no build
        fail 3 "installing the Python packages with $("$venv/bin/python" --version 2>&1) failed; pip's message above says why"
    fi
    for name in "${extra_names[@]}"; do fingerprint >"$venv/.testbed-$name"; done
    rm -f "$unfinished"
}

provide_virtual_machine() {
    [ $vm = yes ] && ! virtual_machine_is_ready || return 0
    as_root sh -c "printf '%s\n' $modules >/etc/modules-load.d/testbed.conf"
    for module in $modules; do
        as_root modprobe -q "$module" || say "the kernel has no module $module; testbed doctor says what that costs"
    done
    as_root sh -c "printf '%s\n' $socket_limits >/etc/sysctl.d/60-testbed.conf"
    as_root sysctl -q -p /etc/sysctl.d/60-testbed.conf || say 'the socket limits could not be raised; testbed doctor says what that costs'
    as_root sh -c "echo '$priority_limit' >/etc/security/limits.d/testbed.conf"
    as_root ln -sfn "$venv/bin/testbed" /usr/local/bin/testbed
    as_root sed -i '/^TESTBED_VENV=/d' /etc/environment
    as_root sh -c "echo 'TESTBED_VENV=$venv' >>/etc/environment"
}

if [ -z "$(missing_packages)" ] && environment_is_complete && { [ $vm = no ] || virtual_machine_is_ready; }; then exit 0; fi
mkdir -p "$venv" 2>/dev/null && [ -w "$venv" ] || { can_become_root && as_root install -d -o "$(id -u)" -g "$(id -g)" "$venv"; } ||
    fail 3 "cannot write to $venv; name another folder in TESTBED_VENV"
trap 'say interrupted; exit 130' INT TERM
exec 9<"$venv"
flock 9 # pip inherits it: were this script killed, the next one would wait until pip is done
provide_packages
provide_environment
provide_virtual_machine
