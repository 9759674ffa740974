# Completion of sexpgpu-run for bash.
_sexpgpu_run() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  case $before in
    --metrics | -m) COMPREPLY=($(compgen -W 'stdout jsonl: syvain' -- "$word")) ;;
    --device | -d) COMPREPLY=($(compgen -W 'cpu cuda' -- "$word")) ;;
    --choices) COMPREPLY=($(compgen -W 'fresh -' -- "$word") $(compgen -f -- "$word")) ;;
    --checkpoint-dir | -c) COMPREPLY=($(compgen -d -- "$word")) ;;
    --digest) COMPREPLY=($(compgen -W 'every=' -- "$word")) ;;
    --digest-nodes) COMPREPLY=($(compgen -W 'step=' -- "$word")) ;;
    *)
      if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(sexpgpu-run --help | grep -o -- '--[a-z-]*')" -- "$word"))
      else
        COMPREPLY=($(compgen -f -X '!*.sexp' -- "$word") $(compgen -d -- "$word"))
      fi
      ;;
  esac
}
complete -o filenames -o nospace -F _sexpgpu_run sexpgpu-run
