{{- define "isvc-registrar.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "isvc-registrar.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "isvc-registrar.labels" -}}
{{ include "isvc-registrar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "isvc-registrar.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "isvc-registrar.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "isvc-registrar.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The Lease by which the syncers agree on which of them acts. */}}
{{- define "isvc-registrar.lease" -}}
{{- printf "%s-syncer" (include "isvc-registrar.fullname" . | trunc 56 | trimSuffix "-") -}}
{{- end -}}

{{/* The Secret that the webhook's certificate is mounted from. */}}
{{- define "isvc-registrar.certificateSecret" -}}
{{- required "certificate.existingSecret is needed with certificate.mode provided: the name of a kubernetes.io/tls Secret" .Values.certificate.existingSecret -}}
{{- end -}}

{{/* The ConfigMap that holds the registries file. */}}
{{- define "isvc-registrar.registriesName" -}}
{{- printf "%s-registries" (include "isvc-registrar.fullname" . | trunc 52 | trimSuffix "-") -}}
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

{{/* Arguments that webhook and syncer share. */}}
{{- define "isvc-registrar.commonArguments" -}}
{{- if .Values.registry.list }}
- --registries=/etc/isvc-registrar/registries/registries.yaml
{{- end }}
{{- with .Values.registry.url }}
- --registry-url={{ . }}
{{- end }}
{{- range .Values.registry.namespaces }}
- --registry-namespace={{ . }}
{{- end }}
- --registry-api={{ .Values.registry.api }}
{{- with .Values.registry.timeout }}
- --registry-timeout={{ . }}
{{- end }}
{{- if ne .Values.registry.token.from "none" }}
- --registry-token-file=/var/run/secrets/isvc-registrar/registry/token
{{- end }}
{{- if .Values.registry.ca.configMap }}
- --registry-ca-file=/etc/isvc-registrar/registry-ca/ca.crt
{{- end }}
- --label-prefix={{ .Values.labelPrefix }}
{{- with .Values.clusterId }}
- --cluster-id={{ . }}
{{- end }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- end -}}

{{/* Mounts that webhook and syncer share. */}}
{{- define "isvc-registrar.commonMounts" -}}
{{- if .Values.registry.list }}
- name: registries
  mountPath: /etc/isvc-registrar/registries
  readOnly: true
{{- end }}
{{- if ne .Values.registry.token.from "none" }}
- name: registry-token
  mountPath: /var/run/secrets/isvc-registrar/registry
  readOnly: true
{{- end }}
{{- if .Values.registry.ca.configMap }}
- name: registry-ca
  mountPath: /etc/isvc-registrar/registry-ca
  readOnly: true
{{- end }}
{{- end -}}

{{- define "isvc-registrar.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{/* CEL: one of our labels or the annotation differs between object and oldObject. A map or a key that is absent is no
error: its value is none, and none equals none. */}}
{{- define "isvc-registrar.cel.changed" -}}
{{- $prefix := .Values.labelPrefix -}}
{{- range $index, $name := list "registered-model-id" "model-version-id" "inference-service-id" "name" "namespace" -}}
{{- $key := printf "%s/%s" $prefix $name -}}
{{- if $index }}
|| {{ end }}object.metadata.?labels[?'{{ $key }}'] != oldObject.metadata.?labels[?'{{ $key }}']
{{- end }}
|| object.metadata.?annotations[?'{{ $prefix }}/url'] != oldObject.metadata.?annotations[?'{{ $prefix }}/url']
{{- end -}}

{{/* The matchConditions that both webhooks have. */}}
{{- define "isvc-registrar.cel.common" -}}
- name: not-being-deleted
  expression: "!has(object.metadata.deletionTimestamp)"
{{- with .Values.webhook.exempt.users }}
- name: user-not-exempt
  expression: {{ printf "!has(request.userInfo.username) || !(request.userInfo.username in %s)" (toJson .) | quote }}
{{- end }}
{{- with .Values.webhook.exempt.groups }}
- name: group-not-exempt
  expression: {{ printf "!has(request.userInfo.groups) || !request.userInfo.groups.exists(group, group in %s)" (toJson .) | quote }}
{{- end }}
{{- end -}}

{{/* What both webhooks listen to, but for the operations. */}}
{{- define "isvc-registrar.rule" -}}
apiGroups: [serving.kserve.io]
apiVersions: [v1beta1]
resources: [inferenceservices]
scope: Namespaced
{{- end -}}

{{/* The fields that are the same in both webhooks. */}}
{{- define "isvc-registrar.webhook" -}}
clientConfig:
  service:
    name: {{ include "isvc-registrar.fullname" . }}
    namespace: {{ .Release.Namespace }}
    path: /mutate
    port: {{ .Values.service.port }}
  {{- with .Values.certificate.caBundle }}
  caBundle: {{ b64enc . }}
  {{- end }}
admissionReviewVersions: [v1]
sideEffects: NoneOnDryRun
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
matchPolicy: Equivalent
# Asked again when a later webhook changed the object: it may have added the model's label.
reinvocationPolicy: IfNeeded
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ list "kube-system" .Release.Namespace | uniq | toJson }}
    # The switch that turns it off for a namespace, whatever state the program is in.
    - key: {{ .Values.labelPrefix }}/registrar
      operator: NotIn
      values: ["off"]
objectSelector: {}
{{- end -}}

{{- define "isvc-registrar.subject" -}}
- kind: ServiceAccount
  name: {{ include "isvc-registrar.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "isvc-registrar.env" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end -}}
