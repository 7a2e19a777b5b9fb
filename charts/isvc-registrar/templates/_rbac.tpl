{{/* A role and its binding: (dict "root" . "kind" "Role" "name" … "namespace" … "accounts" (list …) "rules" …). The kind
is Role or ClusterRole; a ClusterRole has no namespace. */}}
{{- define "isvc-registrar.grant" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "isvc-registrar.labels" .root | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "isvc-registrar.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  {{- range .accounts | uniq }}
  - kind: ServiceAccount
    name: {{ . }}
    namespace: {{ $.root.Release.Namespace }}
  {{- end }}
{{- end -}}

{{/* What both read of namespaces. */}}
{{- define "isvc-registrar.namespaceRules" -}}
# Labels of namespaces choose the mode and the registry.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- if not .Values.clusterId }}
# Its UID is the cluster's id.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* What the syncer does in every namespace, or in each one that it watches. */}}
{{- define "isvc-registrar.objectRules" -}}
# Entries are kept true to these.
- apiGroups: [serving.kserve.io]
  resources: [inferenceservices]
  verbs: [get, list, watch{{ if .Values.syncer.releaseFinalizer }}, patch{{ end }}]
# What happened to an entry, said on its InferenceService.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "isvc-registrar.configurationRules" -}}
# Whether its caBundle trusts the served certificate is what readiness means{{ if eq .Values.certificate.mode "selfManaged" }}; it is written and kept{{ end }}.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [{{ include "isvc-registrar.webhookConfiguration" . }}]
  verbs: [get, list, watch{{ if eq .Values.certificate.mode "selfManaged" }}, patch{{ end }}]
{{- end -}}

{{- define "isvc-registrar.certificateRules" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "isvc-registrar.certificateSecret" . }}]
  verbs: [get, list, watch, update]
{{- end -}}

{{- define "isvc-registrar.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "isvc-registrar.lease" . }}]
  verbs: [get, update]
{{- end -}}

{{- define "isvc-registrar.serviceRules" -}}
# A registry is found by its Service.
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
{{- end -}}
