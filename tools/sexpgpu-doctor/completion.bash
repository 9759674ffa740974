# Completion of sexpgpu-doctor for bash.
_sexpgpu_doctor() {
  COMPREPLY=($(compgen -W '--json --quiet --verify --help --version' -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _sexpgpu_doctor sexpgpu-doctor
