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

{{/* The full name with a suffix, 63 characters together: (list . "syncer") */}}
{{- define "isvc-registrar.named" -}}
{{- $suffix := index . 1 -}}
{{- $room := sub 62 (len $suffix) | int -}}
{{- printf "%s-%s" (include "isvc-registrar.fullname" (index . 0) | trunc $room | trimSuffix "-") $suffix -}}
{{- end -}}

{{/* Sorts after `mutating.…`, so that the webhook sees what OpenDataHub's webhooks made of the object. */}}
{{- define "isvc-registrar.webhookConfiguration" -}}
registration.{{ include "isvc-registrar.fullname" . }}
{{- end -}}

{{/* The name that the API server calls the webhook by, as the certificate has to hold it. */}}
{{- define "isvc-registrar.dnsName" -}}
{{ include "isvc-registrar.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* Labels of all Pods of the release, whatever they run. */}}
{{- define "isvc-registrar.podSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of the Pods of one Deployment: (list . "webhook") */}}
{{- define "isvc-registrar.componentSelector" -}}
{{ include "isvc-registrar.podSelector" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "isvc-registrar.labels" -}}
{{ include "isvc-registrar.podSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "isvc-registrar.webhookAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "isvc-registrar.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The syncer's ServiceAccount: of its own, or that of the Pod that it shares with the webhook. */}}
{{- define "isvc-registrar.syncerAccount" -}}
{{- with .Values.syncer -}}
{{- if not .standalone -}}
{{- include "isvc-registrar.webhookAccount" $ -}}
{{- else if .serviceAccount.create -}}
{{- default (include "isvc-registrar.named" (list $ "syncer")) .serviceAccount.name -}}
{{- else -}}
{{- required "syncer.serviceAccount.name is needed when syncer.serviceAccount.create is false" .serviceAccount.name -}}
{{- end -}}
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
{{- include "isvc-registrar.named" (list . "syncer") -}}
{{- end -}}

{{/* The Secret that holds the webhook's certificate. */}}
{{- define "isvc-registrar.certificateSecret" -}}
{{- if eq .Values.certificate.mode "provided" -}}
{{- required "certificate.existingSecret is needed with certificate.mode provided: the name of a kubernetes.io/tls Secret" .Values.certificate.existingSecret -}}
{{- else -}}
{{- include "isvc-registrar.named" (list . "tls") -}}
{{- end -}}
{{- end -}}
