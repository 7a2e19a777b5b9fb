{{/* The webhook's container. */}}
{{- define "isvc-registrar.webhookContainer" -}}
{{- $files := ne .Values.certificate.mode "selfManaged" -}}
name: webhook
image: {{ include "isvc-registrar.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - webhook
  - --listen=$(POD_IP):{{ .Values.webhook.port }}
  - --health-listen=$(POD_IP):{{ .Values.webhook.healthPort }}
  {{- with .Values.webhook.drainDelay }}
  - --drain-delay={{ . }}
  {{- end }}
  - --webhook-configuration={{ include "isvc-registrar.webhookConfiguration" . }}
  {{- if $files }}
  - --tls-cert-file=/etc/isvc-registrar/tls/tls.crt
  - --tls-key-file=/etc/isvc-registrar/tls/tls.key
  {{- else }}
  - --tls-secret={{ .Release.Namespace }}/{{ include "isvc-registrar.certificateSecret" . }}
  - --service={{ .Release.Namespace }}/{{ include "isvc-registrar.fullname" . }}
  {{- with .Values.certificate.lifetime }}
  - --certificate-lifetime={{ . }}
  {{- end }}
  {{- end }}
  - --mode={{ .Values.registration.mode }}
  - --on-missing={{ .Values.registration.onMissing }}
  - --on-invalid={{ .Values.registration.onInvalid }}
  - --on-archived={{ .Values.registration.onArchived }}
  - --on-unavailable={{ .Values.registration.onUnavailable }}
  {{- include "isvc-registrar.commonArguments" . | trim | nindent 2 }}
{{ include "isvc-registrar.environment" . }}
ports:
  - name: webhook
    containerPort: {{ .Values.webhook.port }}
  - name: health
    containerPort: {{ .Values.webhook.healthPort }}
# Ready when the API server's calls succeed; neither a registry nor the syncer has a say in it.
startupProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 2
  timeoutSeconds: 2
{{ include "isvc-registrar.containerSecurity" . }}
resources:
  {{- toYaml .Values.webhook.resources | nindent 2 }}
{{- $mounts := include "isvc-registrar.commonMounts" . | trim }}
{{- if or $files $mounts }}
volumeMounts:
  {{- if $files }}
  - name: tls
    mountPath: /etc/isvc-registrar/tls
    readOnly: true
  {{- end }}
  {{- with $mounts }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The syncer's container, but for probes: in the webhook's Pod, a syncer in trouble would take the webhook down with
it. What fails in it is started anew within the process. */}}
{{- define "isvc-registrar.syncerContainer" -}}
name: syncer
image: {{ include "isvc-registrar.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - syncer
  - --health-listen=$(POD_IP):{{ .Values.syncer.healthPort }}
  - --lease={{ .Release.Namespace }}/{{ include "isvc-registrar.lease" . }}
  {{- range .Values.syncer.watchNamespaces }}
  - --watch-namespace={{ . }}
  {{- end }}
  {{- with .Values.syncer.resync }}
  - --resync={{ . }}
  {{- end }}
  {{- with .Values.syncer.fullResync }}
  - --full-resync={{ . }}
  {{- end }}
  {{- with .Values.syncer.grace }}
  - --grace={{ . }}
  {{- end }}
  {{- with .Values.syncer.workers }}
  - --workers={{ . }}
  {{- end }}
  {{- if not .Values.syncer.retire }}
  - --no-retire
  {{- end }}
  {{- with .Values.syncer.releaseFinalizer }}
  - --release-finalizer={{ . }}
  {{- end }}
  {{- include "isvc-registrar.commonArguments" . | trim | nindent 2 }}
{{ include "isvc-registrar.environment" . }}
ports:
  - name: syncer-health
    containerPort: {{ .Values.syncer.healthPort }}
{{ include "isvc-registrar.containerSecurity" . }}
resources:
  {{- toYaml .Values.syncer.resources | nindent 2 }}
{{- with include "isvc-registrar.commonMounts" . | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Arguments that webhook and syncer share. */}}
{{- define "isvc-registrar.commonArguments" -}}
{{- with .Values.registry.url }}
- --registry-url={{ . }}
{{- end }}
{{- range .Values.registry.namespaces | default (list "") }}
- --registry-namespace={{ . }}
{{- end }}
{{- if .Values.registry.list }}
- --registries=/etc/isvc-registrar/registries/registries.yaml
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

{{- define "isvc-registrar.environment" -}}
{{- with .Values.registry.configMap -}}
envFrom:
  - configMapRef:
      name: {{ . }}
{{ end -}}
env:
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Mounts that webhook and syncer share. */}}
{{- define "isvc-registrar.commonMounts" -}}
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
{{- if .Values.registry.list }}
- name: registries
  mountPath: /etc/isvc-registrar/registries
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "isvc-registrar.commonVolumes" -}}
{{- if eq .Values.registry.token.from "serviceAccount" }}
- name: registry-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: {{ .Values.registry.token.expirationSeconds }}
          {{- with .Values.registry.token.audience }}
          audience: {{ . }}
          {{- end }}
{{- else if eq .Values.registry.token.from "secret" }}
- name: registry-token
  secret:
    secretName: {{ required "registry.token.secret is needed with registry.token.from secret" .Values.registry.token.secret }}
    items:
      - key: {{ .Values.registry.token.key }}
        path: token
{{- end }}
{{- with .Values.registry.ca.configMap }}
- name: registry-ca
  configMap:
    name: {{ . }}
    items:
      - key: {{ $.Values.registry.ca.key }}
        path: ca.crt
{{- end }}
{{- if .Values.registry.list }}
- name: registries
  projected:
    sources:
      - configMap:
          name: {{ include "isvc-registrar.registriesName" . }}
      {{- with include "isvc-registrar.registrySources" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "isvc-registrar.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  readOnlyRootFilesystem: true
{{- end -}}
