# Sourced: need COMMAND PACKAGE... makes sure that a command is there, which
# Debian packages provide. It installs them when it may (as root, never by sudo);
# else it says what to do, and returns 1. With CI=true that ends the script:
# nothing may be skipped there.

need() {
	need_command=$1
	shift
	command -v "$need_command" >/dev/null 2>&1 && return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "installing $* for $need_command" >&2
		if { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"; } >&2 </dev/null &&
			command -v "$need_command" >/dev/null 2>&1; then
			return 0
		fi
	fi
	echo "MISSING: $need_command. Install it with: apt-get install $*" >&2
	[ "${CI:-}" != true ] || exit 1
	return 1
}
