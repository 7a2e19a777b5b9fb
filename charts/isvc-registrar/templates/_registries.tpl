{{/* The ConfigMap that holds the registries file. */}}
{{- define "isvc-registrar.registriesName" -}}
{{- include "isvc-registrar.named" (list . "registries") -}}
{{- end -}}

{{/* The registries file. A token or a CA lies under the name of the object that it comes from: while the file is newer
than a Pod or older, no path in it can mean the token of another registry. */}}
{{- define "isvc-registrar.registries" -}}
{{- $folder := "/etc/isvc-registrar/registries" -}}
{{- $list := list -}}
{{- range .Values.registry.list -}}
{{- $entry := omit . "token" "ca" -}}
{{- with .service -}}
{{- if not (has .namespace $.Values.registry.namespaces) -}}
{{- fail (printf "registry.list names Service %s in namespace %s, which is not one of registry.namespaces" .name .namespace) -}}
{{- end -}}
{{- end -}}
{{- with .token -}}
{{- $entry = set $entry "tokenFile" (printf "%s/secrets/%s/%s" $folder .secret (default "token" .key)) -}}
{{- end -}}
{{- with .ca -}}
{{- $entry = set $entry "caFile" (printf "%s/configmaps/%s/%s" $folder .configMap (default "ca.crt" .key)) -}}
{{- end -}}
{{- $list = append $list $entry -}}
{{- end -}}
{{- toYaml (dict "registries" $list) -}}
{{- end -}}

{{/* What the volume of the registries holds beside the file: each token and each CA once, whoever uses it. */}}
{{- define "isvc-registrar.registrySources" -}}
{{- $tokens := dict -}}
{{- $cas := dict -}}
{{- range .Values.registry.list -}}
{{- with .token -}}
{{- $_ := set $tokens (printf "%s/%s" .secret (default "token" .key)) . -}}
{{- end -}}
{{- with .ca -}}
{{- $_ := set $cas (printf "%s/%s" .configMap (default "ca.crt" .key)) . -}}
{{- end -}}
{{- end -}}
{{- range $path, $token := $tokens }}
- secret:
    name: {{ $token.secret }}
    items:
      - key: {{ default "token" $token.key }}
        path: secrets/{{ $path }}
{{- end }}
{{- range $path, $ca := $cas }}
- configMap:
    name: {{ $ca.configMap }}
    items:
      - key: {{ default "ca.crt" $ca.key }}
        path: configmaps/{{ $path }}
{{- end }}
{{- end -}}
