{{/* Labels and annotations of a Pod: (list . "webhook" "10250,8080"), the last being its inbound ports. */}}
{{- define "isvc-registrar.podMetadata" -}}
{{- $component := index . 1 -}}
{{- $ports := index . 2 -}}
{{- with index . 0 -}}
labels:
  {{- include "isvc-registrar.labels" . | nindent 2 }}
  app.kubernetes.io/component: {{ $component }}
  {{- if .Values.istio.enabled }}
  sidecar.istio.io/inject: "true"
  {{- end }}
  {{- with .Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ $component }}
  {{- if .Values.istio.enabled }}
  # The API server, the kubelet and Prometheus speak no mutual TLS of the mesh.
  traffic.sidecar.istio.io/excludeInboundPorts: {{ $ports | quote }}
  proxy.istio.io/config: '{"holdApplicationUntilProxyStarts": true}'
  {{- end }}
  {{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* What both Deployments' Pods have beside containers and volumes: (list . "webhook") */}}
{{- define "isvc-registrar.podSpec" -}}
{{- $selector := include "isvc-registrar.componentSelector" . | fromYaml -}}
{{- with index . 0 -}}
# Variables of Services in this namespace could be taken for the program's own.
enableServiceLinks: false
terminationGracePeriodSeconds: 30
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- if or .Values.hostNetwork .Values.dnsPolicy }}
dnsPolicy: {{ default "ClusterFirstWithHostNet" .Values.dnsPolicy }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
# No user: OpenShift chooses one, elsewhere it is the image's.
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- set (deepCopy .) "labelSelector" (default (dict "matchLabels" $selector) .labelSelector) | list | toYaml | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The old Pod must leave a node's ports before the new one can have them. */}}
{{- define "isvc-registrar.strategy" -}}
type: RollingUpdate
rollingUpdate:
  {{- if .Values.hostNetwork }}
  maxSurge: 0
  maxUnavailable: 1
  {{- else }}
  maxSurge: 1
  maxUnavailable: 0
  {{- end }}
{{- end -}}

{{/* Values that do not go together, refused with a sentence. */}}
{{- define "isvc-registrar.check" -}}
{{- with .Values -}}
{{- $ports := list (int .webhook.port) (int .webhook.healthPort) (int .syncer.healthPort) -}}
{{- if ne (len $ports) (len (uniq $ports)) -}}
{{- fail "webhook.port, webhook.healthPort and syncer.healthPort have to differ" -}}
{{- end -}}
{{- if and .hostNetwork (eq (int .webhook.port) 10250) -}}
{{- fail "webhook.port 10250 is the kubelet's own with hostNetwork: set another, such as 9443" -}}
{{- end -}}
{{- end -}}
{{- end -}}
