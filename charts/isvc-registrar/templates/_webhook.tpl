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

{{/* The fields that are the same in both webhooks. A caBundle is rendered only where nobody else writes it. */}}
{{- define "isvc-registrar.webhook" -}}
clientConfig:
  service:
    name: {{ include "isvc-registrar.fullname" . }}
    namespace: {{ .Release.Namespace }}
    path: /mutate
    port: {{ .Values.service.port }}
  {{- if eq .Values.certificate.mode "provided" }}
  caBundle: {{ required "certificate.caBundle is needed with certificate.mode provided: --set-file certificate.caBundle=ca.crt" .Values.certificate.caBundle | b64enc }}
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
